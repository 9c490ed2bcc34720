import { wgsl } from "../../program/index.js";

/** Whose gradients a kernel computes. */
export type Side = "keys" | "queries";

/** The names of the operands: own rows times other rows give scores (1) and the gradients of probabilities (2). */
export const operands: Readonly<
  Record<Side, { own: readonly [string, string]; other: readonly [string, string] }>
> = {
  keys: { own: ["k", "v"], other: ["q", "g"] },
  queries: { own: ["q", "g"], other: ["k", "v"] },
};

/** WGSL expressions: the last own row of one key head. */
export const ownLast: Readonly<Record<Side, string>> = {
  keys: "parameters.key_length - 1u",
  queries: "parameters.rows - 1u",
};

/**
 * The columns that some own row meets: those from `placeStart` to `placeEnd` of each of `members` runs, which are `stride`
 * apart. Columns from `wholeStart` to `wholeEnd` meet all own rows.
 */
export function limitsText(side: Side, isWindowed: boolean): string {
  if (side === "keys")
    return wgsl`
  let queryLength = i32(parameters.query_length);
  let firstOwn = i32(rowBase);
  let lastOwn = i32(min(rowBase + ROWS, parameters.key_length) - 1u);
  let placeStart = u32(clamp(firstOwn - parameters.visible, 0, queryLength));
  let placeEnd = u32(${isWindowed ? "clamp(lastOwn - parameters.oldest + 1, 0, queryLength)" : "queryLength"});
  let wholeStart = u32(clamp(lastOwn - parameters.visible, 0, queryLength));
  let wholeEnd = u32(${isWindowed ? "clamp(firstOwn - parameters.oldest + 1, 0, queryLength)" : "queryLength"});
  let members = select(0u, parameters.rows / parameters.query_length, placeStart < placeEnd);
  let stride = parameters.query_length;`;
  return wgsl`
  let keyLength = i32(parameters.key_length);
  // A tile may reach into another head.
  let lastRow = min(rowBase + ROWS, parameters.rows) - 1u;
  let oneHead = rowBase / parameters.query_length == lastRow / parameters.query_length;
  let firstOwn = i32(select(0u, rowBase % parameters.query_length, oneHead));
  let lastOwn = i32(select(parameters.query_length - 1u, lastRow % parameters.query_length, oneHead));
  let placeStart = u32(${isWindowed ? "clamp(firstOwn + parameters.oldest, 0, keyLength)" : "0"});
  let placeEnd = u32(clamp(lastOwn + parameters.visible + 1, 0, keyLength));
  let wholeStart = u32(${isWindowed ? "clamp(lastOwn + parameters.oldest, 0, keyLength)" : "0"});
  let wholeEnd = u32(clamp(firstOwn + parameters.visible + 1, 0, keyLength));
  let members = select(0u, 1u, placeStart < placeEnd);
  let stride = 0u;`;
}

/** A walk over the columns that some own row meets, so many at a time. */
export interface Walk {
  /** WGSL expression: how many columns at a time. */
  readonly columns: string;
  /** Statements that begin to read the first columns, of which it has the first and the last one. */
  readonly start: (first: string, last: string) => string;
  /**
   * Statements for the columns from `columnBase` on, of which `columnLast` is the last one that there is, and which begin to
   * read those from `columnNext` to `lastNext`. `reached` is the place of the first column in its run of `stride`.
   */
  readonly step: string;
}

/** The text of a walk, run by run, between the limits of `limitsText`. */
export function walkText({ columns, start, step }: Walk): string {
  return `  var member = 0u;
  var reached = placeStart;
  if (members > 0u) {
${start("reached", "placeEnd - 1u")}
  }
  loop {
    if (member >= members) { break; }
    let columnBase = member * stride + reached;
    let columnLast = member * stride + placeEnd - 1u;
    var reachedNext = reached + ${columns};
    var memberNext = member;
    if (reachedNext >= placeEnd) { reachedNext = placeStart; memberNext++; }
    // What follows the last columns is read, if there is anything, and not used.
    let columnNext = min(memberNext, members - 1u) * stride + reachedNext;
    let lastNext = min(memberNext, members - 1u) * stride + placeEnd - 1u;
${step}
    reached = reachedNext;
    member = memberNext;
  }`;
}
