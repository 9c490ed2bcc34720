import type { FloatType } from "@backplane/core";
import type { Bin, SubnormalResults } from "./accuracy.js";
import { format } from "./format.js";

/** Neighbouring exponents whose largest errors are alike. */
export interface Range {
  /** Of x; of a binary function: of the exact result. */
  readonly sign: "either" | "negative" | "positive";
  /** from <= |x| < to. From 0: with zeros and subnormal numbers. To infinity: up to the end of the type. */
  readonly from: number;
  readonly to: number;
  readonly samples: number;
  readonly worst: number;
  readonly at: readonly number[];
  readonly subnormal: SubnormalResults;
  readonly zeroed: number;
}

/** Errors up to here are alike; so are others if none exceeds another by more than a factor. */
const small = 0.8;
const alike = 2;

interface Group extends Omit<Bin, "negative" | "exponent"> {
  readonly first: number;
  readonly last: number;
  /** Smallest of the largest errors of its exponents; undefined if all results are infinite or subnormal. */
  readonly mildest: number | undefined;
}

/**
 * Returns the fewest ranges whose exponents' largest errors are alike. It joins the two neighbours that are
 * most alike until none are. Both signs are joined if they are alike for every exponent.
 */
export function rangesOf(dtype: FloatType, bins: readonly Bin[]): Range[] {
  const side = (negative: boolean): Group[] =>
    bins
      .filter((bin) => bin.negative === negative && isUsed(bin))
      .map(groupOf)
      .sort((p, q) => p.first - q.first);
  const [negative, positive] = [side(true), side(false)];
  const folded: Group[] = [];
  for (const group of [...negative, ...positive].sort((p, q) => p.first - q.first)) {
    const before = folded.at(-1);
    if (before?.first !== group.first) folded.push(group);
    else folded[folded.length - 1] = join(before, group);
  }
  const describe = (sign: Range["sign"]) => (group: Group) => rangeOf(dtype, sign, group);
  if (negative.length > 0 && positive.length > 0 && folded.every((group) => ratio(group) <= alike))
    return joined(folded).map(describe("either"));
  return [
    ...joined(negative).reverse().map(describe("negative")),
    ...joined(positive).map(describe("positive")),
  ];
}

function isUsed({ samples, zeroed, subnormal }: Bin): boolean {
  return samples + zeroed + subnormal.samples > 0;
}

function groupOf({ negative: _, exponent, ...bin }: Bin): Group {
  return { ...bin, first: exponent, last: exponent, mildest: bin.samples === 0 ? undefined : bin.worst };
}

function joined(groups: readonly Group[]): Group[] {
  const result = [...groups];
  for (;;) {
    let best = -1;
    let bestRatio = alike;
    for (let i = 0; i + 1 < result.length; i++) {
      const together = ratio(join(result[i]!, result[i + 1]!));
      if (together <= bestRatio && (best < 0 || together < bestRatio)) {
        best = i;
        bestRatio = together;
      }
    }
    if (best < 0) return result;
    result.splice(best, 2, join(result[best]!, result[best + 1]!));
  }
}

function join(p: Group, q: Group): Group {
  const worse = q.worst > p.worst ? q : p;
  const subnormal = q.subnormal.worst > p.subnormal.worst ? q.subnormal : p.subnormal;
  const mildest = [p.mildest, q.mildest].filter((value) => value !== undefined);
  return {
    ...{ first: Math.min(p.first, q.first), last: Math.max(p.last, q.last) },
    ...{ samples: p.samples + q.samples, worst: worse.worst, at: worse.at, zeroed: p.zeroed + q.zeroed },
    mildest: mildest.length === 0 ? undefined : Math.min(...mildest),
    subnormal: {
      samples: p.subnormal.samples + q.subnormal.samples,
      kept: p.subnormal.kept + q.subnormal.kept,
      flushed: p.subnormal.flushed + q.subnormal.flushed,
      ...{ worst: subnormal.worst, at: subnormal.at },
    },
  };
}

/** By how much the largest errors of a group's exponents differ. */
function ratio({ worst, mildest }: Group): number {
  if (mildest === undefined || worst === mildest) return 1;
  return Math.max(worst, small) / Math.max(mildest, small);
}

function rangeOf(dtype: FloatType, sign: Range["sign"], { first, last, mildest: _, ...found }: Group): Range {
  const { lowest, largest } = format[dtype];
  return {
    sign,
    from: first < lowest ? 0 : 2 ** first,
    to: 2 ** (last + 1) > largest ? Number.POSITIVE_INFINITY : 2 ** (last + 1),
    ...found,
  };
}

/** Returns a text such as `2^-9 <= |x| < 8`; `of` is the measured quantity. */
export function rangeText({ sign, from, to }: Range, of: string): string {
  const bound = (value: number): string => {
    const exponent = Math.log2(value);
    return value !== 0 && (exponent < -3 || exponent > 10) ? `2^${exponent}` : String(value);
  };
  if (sign === "negative") {
    const upper = `${of} <= ${from === 0 ? "0" : `-${bound(from)}`}`;
    return to === Number.POSITIVE_INFINITY ? upper : `-${bound(to)} < ${upper}`;
  }
  const size = sign === "either" ? `|${of}|` : of;
  const lower = sign === "either" && from === 0 ? size : `${bound(from)} <= ${size}`;
  if (to !== Number.POSITIVE_INFINITY) return `${lower} < ${bound(to)}`;
  return sign === "either" && from === 0 ? `all ${of}` : lower;
}
