import { wgsl } from "../../program/index.js";

/** WGSL of two values combined. */
export type Combine = (a: string, b: string) => string;

/** What is loaded at once, of a row. */
export interface RowTexts {
  /** `so_far`: each combined with those before it, in the order of the scan. `placed`: results, in the order of the row. */
  readonly functions: string;
  readonly nothing: string;
  readonly last: (name: string) => string;
}

export function singlesText(join: Combine): RowTexts {
  return {
    functions: wgsl`
fn so_far(x: Values) -> Values { return x; }

fn placed(x: Values, base: Value) -> Values { return select(${join("base", "x")}, base, is_exclusive()); }`,
    nothing: "identity()",
    last: (name) => name,
  };
}

function soFarOfFour(join: Combine): string {
  return wgsl`
fn so_far_of_four(x: Values) -> Values {
  let two = ${join("x.x", "x.y")};
  let four = ${join("x.z", "x.w")};
  return Values(x.x, two, ${join("two", "x.z")}, ${join("two", "four")});
}`;
}

export function quadsText(join: Combine): RowTexts {
  return {
    functions: wgsl`
${soFarOfFour(join)}
fn so_far(x: Values) -> Values { return so_far_of_four(select(x, x.wzyx, is_reverse())); }

fn placed(x: Values, base: Value) -> Values {
  let after = ${join("Values(base)", "x")};
  let shifted = select(after, Values(base, after.xyz), is_exclusive());
  return select(shifted, shifted.wzyx, is_reverse());
}`,
    nothing: "Values(identity())",
    last: (name) => `${name}.w`,
  };
}

export function eightsText(join: Combine): RowTexts {
  return {
    functions: wgsl`
${soFarOfFour(join)}
fn so_far(x: Eight) -> Eight {
  let first = so_far_of_four(x.first);
  return Eight(first, ${join("Values(first.w)", "so_far_of_four(x.second)")});
}

fn placed(x: Eight, base: Value) -> Eight {
  let first = ${join("Values(base)", "x.first")};
  let second = ${join("Values(base)", "x.second")};
  return Eight(
    select(first, Values(base, first.xyz), is_exclusive()),
    select(second, Values(first.w, second.xyz), is_exclusive()));
}`,
    nothing: "Eight(Values(identity()), Values(identity()))",
    last: (name) => `${name}.second.w`,
  };
}
