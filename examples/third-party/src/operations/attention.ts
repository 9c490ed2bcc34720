import type { AttentionArguments } from "@backplane/core";
import type { Call, Place } from "../checks.js";
import { numbers, type Plan } from "../plan.js";

type Triple = readonly [number, number, number];

/** Rows of elements that follow one another, of each head of each batch. */
interface Rows {
  /** All of them, with what lies between. */
  readonly place: Place;
  /** Where a row begins. */
  readonly start: (batch: number, head: number, row: number) => number;
}

function rowsOf(
  call: Call,
  name: "q" | "k" | "v" | "out",
  args: AttentionArguments,
  extents: Triple,
  size: number,
): Rows {
  const argument = `${name}Strides` as const;
  const given = args[argument];
  const elements = call.count(name, [...extents, size]);
  const [, heads, rows] = extents;
  const [batchStep, headStep, rowStep] =
    given === undefined
      ? [heads * rows * size, rows * size, size]
      : (call.wholes(argument, given, 3) as unknown as Triple);
  const axes = [batchStep, headStep, rowStep].map((step, axis) => ({ step, last: extents[axis]! - 1 }));
  let reach = size;
  for (const { step, last } of axes.sort((a, b) => a.step - b.step)) {
    if (name === "out" && elements > 0 && last > 0 && step < reach)
      call.refuse(argument, given, "steps past all rows that smaller steps lead to");
    reach += last * step;
  }
  return {
    place: call.place(name, args[name], elements === 0 ? 0 : reach, 4),
    start: (batch, head, row) => batch * batchStep + head * headStep + row * rowStep,
  };
}

export function planAttention(call: Call, args: AttentionArguments): Plan | undefined {
  const batch = call.whole("batch", args.batch);
  const heads = call.whole("heads", args.heads);
  const kvHeads = call.whole("kvHeads", args.kvHeads ?? heads);
  if (heads > 0 && (kvHeads === 0 || heads % kvHeads !== 0))
    call.refuse("kvHeads", kvHeads, `divisors of the ${heads} heads`);
  const queryLength = call.whole("queryLength", args.queryLength);
  const keyLength = call.whole("keyLength", args.keyLength);
  const size = call.whole("headSize", args.headSize);
  const scale = call.factor("scale", args.scale ?? (size === 0 ? 1 : 1 / Math.sqrt(size)));
  const { causal = false } = args;
  if (typeof causal !== "boolean") call.choice("causal", causal, ["upper-left", "lower-right"]);
  const shift = causal === "lower-right" ? keyLength - queryLength : 0;

  const queries = [batch, heads, queryLength] as const;
  const keys = [batch, kvHeads, keyLength] as const;
  const q = rowsOf(call, "q", args, queries, size);
  const k = rowsOf(call, "k", args, keys, size);
  const v = rowsOf(call, "v", args, keys, size);
  const out = rowsOf(call, "out", args, queries, size);
  for (const [name, { place }] of Object.entries({ q, k, v }))
    call.apart(["out", out.place], [name, place], "never");
  if (out.place.byteLength === 0) return undefined;

  return {
    output: out.place,
    inputs: [q.place, k.place, v.place],
    compute(bytes, [bytesQ, bytesK, bytesV]) {
      const arrayQ = numbers(bytesQ!, q.place);
      const [arrayK, arrayV] = [numbers(bytesK!, k.place), numbers(bytesV!, v.place)];
      const results = numbers(bytes, out.place);
      const weights = new Float64Array(keyLength);
      const sums = new Float64Array(size);
      for (let head = 0; head < batch * heads; head++) {
        const [image, own] = [Math.floor(head / heads), head % heads];
        const group = Math.floor(own / (heads / kvHeads));
        for (let i = 0; i < queryLength; i++) {
          const query = q.start(image, own, i);
          // The keys that this query sees come first.
          const seen = causal === false ? keyLength : Math.min(Math.max(i + shift + 1, 0), keyLength);
          let largest = Number.NEGATIVE_INFINITY;
          for (let j = 0; j < seen; j++) {
            const key = k.start(image, group, j);
            let score = 0;
            for (let d = 0; d < size; d++) score += arrayQ[query + d]! * arrayK[key + d]!;
            weights[j] = scale * score;
            largest = Math.max(largest, weights[j]!);
          }
          sums.fill(0);
          let total = 0;
          for (let j = 0; j < seen; j++) {
            const weight = Math.exp(weights[j]! - largest);
            total += weight;
            const value = v.start(image, group, j);
            for (let d = 0; d < size; d++) sums[d]! += weight * arrayV[value + d]!;
          }
          const result = out.start(image, own, i);
          for (let d = 0; d < size; d++) results[result + d] = seen === 0 ? 0 : sums[d]! / total;
        }
      }
    },
  };
}
