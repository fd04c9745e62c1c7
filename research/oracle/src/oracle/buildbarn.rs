//! buildbarn/go-cdc: `buildbarn_repmaxcdc_seednil__minA_horizonB`.

use super::{Inputs, Name, number};

pub(super) fn spec(name: &Name, _inputs: &mut Inputs) -> Option<String> {
    let (min, horizon) = name.parameters.first()?.split_once('_')?;
    let (min, horizon) = (number(min, "min")?, number(horizon, "horizon")?);
    let is_known = name.family == "buildbarn_repmaxcdc_seednil";
    is_known.then(|| format!("repmaxcdc:min={min},horizon={horizon}"))
}
