use super::*;

fn ours(_: Size) -> Result<Vec<Figure>, Failure> {
    Ok(vec![
        figure("ask_per_s", 1_234_567.8),
        figure("ask_p50_us", 12.345),
    ])
}

fn floor(_: Size) -> Result<Vec<Figure>, Failure> {
    Ok(vec![figure("ask_per_s", 2_000_000.0)])
}

const ROWS: [Row; 2] = [
    Row {
        name: "ask",
        title: "an ask",
        floor: Some(floor),
        ours: Some(ours),
        target: Some(("ask_per_s", 1e6)),
    },
    Row {
        name: "tell",
        title: "a tell",
        floor: None,
        ours: Some(|_| Err(Failure::run("no"))),
        target: None,
    },
];

#[test]
fn rows_are_selected_by_name() {
    assert_eq!(select(&ROWS, &[]).unwrap().len(), 2);
    assert_eq!(select(&ROWS, &["tell".to_owned()]).unwrap()[0].name, "tell");
    let error = select(&ROWS, &["told".to_owned()]).unwrap_err();
    assert_eq!(error.code(), 2);
    assert_eq!(error.to_string(), "no row \"told\"; there are ask, tell");
}

#[test]
fn one_json_object() {
    let measured = measure(ROWS[0], Size::Quick).unwrap();
    assert_eq!(
        to_json(&[measured]).to_string(),
        r#"{"ask_p50_us":12.345,"ask_per_s":1234568,"floor":{"ask_per_s":2000000}}"#
    );
}

#[test]
fn a_failing_row_is_named() {
    let error = measure(ROWS[1], Size::Full).unwrap_err();
    assert_eq!(error.to_string(), "tell: no");
}

#[test]
fn a_line_per_key() {
    let text = to_lines(&measure(ROWS[0], Size::Full).unwrap());
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(
        lines[0].contains("1 234 568    2 000 000     62 %"),
        "{text}"
    );
    assert!(lines[0].ends_with("≥ 1 000 000 ✓"), "{text}");
    assert!(
        lines[1].contains("p50_us") && lines[1].contains("12.3"),
        "{text}"
    );
    assert!(heading().contains("of floor"));
}

#[test]
fn sizes() {
    assert_eq!(Size::Full.of(1_000_000), 1_000_000);
    assert_eq!(Size::Quick.of(1_000_000), 1_000);
    assert_eq!(Size::Quick.of(10), 100);
}
