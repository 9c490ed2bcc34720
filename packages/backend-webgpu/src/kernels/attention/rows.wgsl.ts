import { type ParameterType, wgsl } from "../../program/index.js";
import { type Hiding, hidingParameters } from "./hiding.wgsl.js";

/** Of kernels for keys that may be split into parts. */
export function partParameters(hiding: Hiding | undefined): Readonly<Record<string, ParameterType>> {
  return {
    /** heads / kvHeads * queryLength */
    rows: "u32",
    query_length: "u32",
    key_length: "u32",
    key_pitch: "u32",
    head_size: "u32",
    /** Keys of one part. */
    part_keys: "u32",
    /** Times log2(e). */
    scale: "f32",
    visible: "i32",
    ...hidingParameters(hiding),
  };
}

/** How many keys a query sees. */
export const seenFunction: string = wgsl`
/// The number of keys up to keyEnd that a query sees.
fn seen_until(query: u32, keyEnd: u32) -> u32 {
  return u32(clamp(i32(query) + parameters.visible + 1, 0, i32(keyEnd)));
}
`;

/** The name of the first key of a part: with a window, `rowLimits` finds a later one for `keyStart`. */
export function partStart(hiding: Hiding | undefined): string {
  return hiding?.window ? "partStart" : "keyStart";
}

/** The keys from the start of a part on that the ROWS rows from `rowBase` on see. */
export function rowLimits(hiding: Hiding | undefined): string {
  const older = wgsl`
  let keyStart = max(partStart, seen_since(firstQuery) / 16u * 16u); // masks are read in units of 16 keys at most
  let seenSinceByAll = seen_since(lastQuery);`;
  return wgsl`
  // The last query of the tile sees most keys, the first fewest; a tile may reach into another head.
  let lastRow = min(rowBase + ROWS, parameters.rows) - 1u;
  let oneHead = rowBase / parameters.query_length == lastRow / parameters.query_length;
  let firstQuery = select(0u, rowBase % parameters.query_length, oneHead);
  let lastQuery = select(parameters.query_length - 1u, lastRow % parameters.query_length, oneHead);
  let keyEnd = seen_until(lastQuery, min(parameters.key_length, ${partStart(hiding)} + parameters.part_keys));
  let seenByAll = seen_until(firstQuery, keyEnd);
  let keyLast = max(keyEnd, 1u) - 1u;${hiding?.window ? older : ""}`;
}
