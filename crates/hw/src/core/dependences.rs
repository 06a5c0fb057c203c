//! Which loads wait for older stores: a load starts although addresses of older stores are not known, unless it has run
//! past a store of its own bytes before, which is remembered by its address (Moshovos and others 1997; the store sets of Chrysos and Emer 1998
//! tell also which store it waits for).
//!
//! Left out: waits of remembered loads for stores that turn out to be of other bytes, and that what is remembered is
//! forgotten now and then.

/// Loads that depend on older stores, by address.
pub struct Dependences {
    loads: Box<[u64]>,
}

impl Dependences {
    /// None: every dependence is foreseen.
    pub fn new(entries: u32) -> Self {
        Self { loads: vec![u64::MAX; entries as usize].into() }
    }

    /// The load at `pc` depends on an older store whose address came later: whether nobody could know.
    #[inline(never)]
    pub fn surprise(&mut self, pc: u64) -> bool {
        let index = (pc / 4).checked_rem(self.loads.len() as u64);
        let Some(place) = index.and_then(|i| self.loads.get_mut(i as usize)) else { return false };
        std::mem::replace(place, pc) != pc
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_surprises_once_until_another_takes_its_place() {
        let mut d = Dependences::new(16);
        assert_eq!([0x40, 0x40, 0x44, 0x40].map(|pc| d.surprise(pc)), [true, false, true, false]);
        assert_eq!([0x40 + 64, 0x40].map(|pc| d.surprise(pc)), [true, true]);
        assert!(!Dependences::new(0).surprise(0x40), "foreseen");
    }
}
