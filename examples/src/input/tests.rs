use super::*;

fn columns(key: &str, sums: &[&str]) -> Columns {
    Columns {
        key: key.to_owned(),
        sums: sums.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn read(text: &str, key: &str, sums: &[&str]) -> Result<Input, String> {
    Input::read(text.as_bytes(), "f.csv", &columns(key, sums)).map_err(|failure| {
        assert_eq!(failure.code(), 2);
        failure.to_string()
    })
}

#[test]
fn the_flights() {
    let input = Input::open(Path::new(FLIGHTS), &columns("origin", &[])).unwrap();
    assert_eq!(input.len(), 20_000);
    assert_eq!(input.keys().len(), 220);
    assert_eq!(input.sums(), ["delay", "distance"]);
    let delay: i64 = input.rows().map(|row| row.values[0]).sum();
    assert_eq!(delay, 154_078);
    let first = input.rows().next().unwrap();
    assert_eq!((first.number, first.values), (1, &[66, 1750][..]));
    assert_eq!(&*input.keys()[first.key], "DTW");
}

#[test]
fn any_file_with_a_header() {
    let input = read("city,who\nUlm,a\n\"New\nYork\",b\nUlm,c\n", "city", &[]).unwrap();
    assert_eq!(input.len(), 3);
    assert_eq!(input.sums(), [""; 0]);
    let keys: Vec<_> = input.rows().map(|row| &*input.keys()[row.key]).collect();
    assert_eq!(keys, ["Ulm", "New\nYork", "Ulm"]);
    let numbers: Vec<_> = input.rows().map(|row| row.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn named_columns_are_added_up() {
    let text = "k,delay,n,m\na,x,1,-2\nb,y, 3 ,4\n";
    let input = read(text, "k", &["m", "n"]).unwrap();
    let values: Vec<_> = input.rows().map(|row| row.values.to_vec()).collect();
    assert_eq!(values, [[-2, 1], [4, 3]]);
    assert_eq!(read(text, "k", &["none"]).unwrap().sums().len(), 0);
}

#[test]
fn errors_name_file_line_and_column() {
    let rows = [
        ("", "k", "f.csv: has no header line"),
        ("k,v\n", "k", "f.csv: has a header and no rows"),
        ("k,v\na,1\n", "x", "f.csv: no column \"x\"; there are k, v"),
        (
            "k,v\na,1\nb\n",
            "k",
            "f.csv: line 3: has 1 fields, the header has 2",
        ),
        (
            "k,delay\na,1\nb,late\n",
            "k",
            "f.csv: line 3, column delay: \"late\" is not a whole number",
        ),
        (
            "k,distance\na,\n",
            "k",
            "f.csv: line 2, column distance: \"\" is not a whole number",
        ),
    ];
    for (text, key, message) in rows {
        assert_eq!(read(text, key, &[]).unwrap_err(), message);
    }
    let no_sum = read("k,v\na,1\n", "k", &["w"]).unwrap_err();
    assert_eq!(no_sum, "f.csv: no column \"w\"; there are k, v");
    let latin = Input::read(&b"k\n\xe9\n"[..], "f.csv", &columns("k", &[])).unwrap_err();
    assert_eq!(latin.to_string(), "f.csv: line 2: is not UTF-8");
    let missing = Input::open(Path::new("/nonexistent/f.csv"), &columns("k", &[])).unwrap_err();
    assert_eq!(missing.code(), 2);
    assert!(
        missing
            .to_string()
            .starts_with("/nonexistent/f.csv: No such file")
    );
}
