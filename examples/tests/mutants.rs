//! The deliberate faults fit the code.

use std::{collections::BTreeSet, fs, process::Command};

use examples::mutants::{load, repository};

#[test]
fn every_fault_can_be_planted() {
    let mutants = load(&repository()).unwrap();
    for mutant in &mutants {
        for file in mutant.patch.files() {
            let name = &mutant.name;
            assert!(file.starts_with("shard-proto/src/"), "{name}: {file}");
            let text = fs::read_to_string(repository().join(file));
            let text = text.unwrap_or_else(|error| panic!("{name}: {file}: {error}"));
            match mutant.patch.apply(file, &text) {
                Ok(changed) => assert_ne!(changed, text, "{name}"),
                Err(error) => panic!("{name}: {error}"),
            }
        }
    }
}

#[test]
fn faults_differ() {
    let mutants = load(&repository()).unwrap();
    let numbers: BTreeSet<_> = mutants
        .iter()
        .map(|mutant| mutant.name[..2].to_owned())
        .collect();
    assert_eq!(
        numbers.len(),
        mutants.len(),
        "every name begins with a number of its own"
    );
    let faults: BTreeSet<_> = mutants.iter().map(|mutant| &mutant.fault).collect();
    assert_eq!(faults.len(), mutants.len());
    let counted = mutants
        .iter()
        .filter(|mutant| mutant.redundant.is_none())
        .count();
    assert!(counted >= 16, "{counted} faults");
}

#[test]
fn the_program_lists_them_and_refuses_what_it_does_not_know() {
    let run = |arguments: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_mutants"));
        program.args(arguments).output().unwrap()
    };
    let list = run(&["--list"]);
    assert!(list.status.success());
    let text = String::from_utf8(list.stdout).unwrap();
    for mutant in load(&repository()).unwrap() {
        assert!(text.contains(&mutant.name) && text.contains(&mutant.fault));
    }
    for wrong in [
        &["--only", "no-such-fault"][..],
        &["--seeds", "0"],
        &["--rotate"],
    ] {
        let output = run(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
