import { output, type Storage, wgsl } from "../../program/index.js";

/** Bindings of kernels that store the logarithms of the sums of e^score; the others have none of their text. */
export function logBindings(stored: boolean): Readonly<Record<string, Storage>> {
  // Words, since WGSL may assume that there are no infinities.
  return stored ? { logs: output("u32") } : {};
}

/** In names of programs. */
export function logName(stored: boolean): string {
  return stored ? "_logs" : "";
}

/** `store_log(row, high, total)`, with the sum of weights relative to a score times `factor`, its base the same. */
export function logFunction(stored: boolean, base: "two" | "e"): string {
  if (!stored) return "";
  const logarithm =
    base === "two" ? `(high + log2(max(total, 1.0e-30))) * ${Math.LN2}` : "high + log(max(total, 1.0e-30))";
  return wgsl`
/// The logarithm of the sum of e^score of a row: -Infinity if it sees no key.
fn store_log(row: u32, high: f32, total: f32) {
  let value = ${logarithm};
  logs[parameters.logs_offset + row] = select(0xff800000u, bitcast<u32>(value), total > 0.0);
}
`;
}
