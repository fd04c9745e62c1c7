//! The check that a program runs without any library of the system.

/// The maximum size of a program, in bytes.
const PROGRAM_LEN_MAX: usize = 30_000_000;

/// The type of a program header that names a dynamic linker.
const INTERPRETER: usize = 3;

/// The type of a section header for symbols.
const SYMBOLS: usize = 2;

/// The type of a file that runs at any address.
const ANY_ADDRESS: usize = 3;

/// Checks that `program` is a 64-bit ELF file without a dynamic linker and debug information that runs at any
/// address, and not too large.
pub(super) fn check(program: &[u8]) -> Result<(), String> {
    if program.len() > PROGRAM_LEN_MAX {
        return Err(format!("{} bytes (at most {PROGRAM_LEN_MAX})", program.len()));
    }
    if program.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err("no 64-bit little-endian ELF file".to_owned());
    }
    if number::<2>(program, 16)? != ANY_ADDRESS {
        return Err("runs at one address only".to_owned());
    }
    if has_header(program, [32, 54, 56], 0, INTERPRETER)? {
        return Err("needs a dynamic linker".to_owned());
    }
    if has_header(program, [40, 58, 60], 4, SYMBOLS)? {
        return Err("is not stripped".to_owned());
    }
    Ok(())
}

/// Returns `true` if a table of headers has one whose type, `type_offset` bytes behind its beginning, is
/// `wanted`. `places` has the offsets of the table's offset, of the size of a header, and of their
/// number.
fn has_header(
    program: &[u8],
    places: [usize; 3],
    type_offset: usize,
    wanted: usize,
) -> Result<bool, String> {
    let table = number::<8>(program, places[0])?;
    let size = number::<2>(program, places[1])?;
    for index in 0..number::<2>(program, places[2])? {
        let header = table.checked_add(index * size + type_offset);
        if number::<4>(program, header.ok_or("ends within its headers")?)? == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the number of `LEN` bytes at `offset`.
fn number<const LEN: usize>(program: &[u8], offset: usize) -> Result<usize, String> {
    let bytes = offset.checked_add(LEN).and_then(|end| program.get(offset..end));
    let bytes = bytes.ok_or("ends within its headers")?;
    let number = bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    usize::try_from(number).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an ELF file with a program header and a section header of these types.
    fn program(segment: u8, section: u8) -> Vec<u8> {
        let mut program = vec![0; 184];
        program[..6].copy_from_slice(b"\x7fELF\x02\x01");
        program[16] = 3;
        (program[32], program[54], program[56], program[64]) = (64, 56, 1, segment);
        (program[40], program[58], program[60], program[124]) = (120, 64, 1, section);
        program
    }

    #[test]
    fn program_with_a_linker_or_symbols_is_refused() {
        assert_eq!(check(&program(1, 1)), Ok(()));
        assert!(check(&program(3, 1)).is_err_and(|error| error.contains("linker")));
        assert!(check(&program(1, 2)).is_err_and(|error| error.contains("stripped")));
        assert!(check(&program(1, 1)[..124]).is_err(), "a header is outside");
        let mut fixed = program(1, 1);
        fixed[16] = 2;
        assert!(check(&fixed).is_err_and(|error| error.contains("address")));
        assert!(check(&vec![0; PROGRAM_LEN_MAX + 1]).is_err_and(|error| error.contains("at most")));
    }
}
