import { dtypeBytes, type FloatType } from "@backplane/core";
import { type Case, type CaseOptions, epsilon, type Inputs, operationCase, storage } from "./case.js";

export interface AttentionSize {
  readonly dtype?: FloatType;
  readonly batch?: number;
  readonly heads: number;
  /** Default: heads. */
  readonly kvHeads?: number;
  /** Number of queries and keys; `queries` gives the queries if there are fewer. */
  readonly length: number;
  readonly queries?: number;
  readonly headSize: number;
  readonly causal?: boolean;
  /**
   * [batch, row, head] of queries, keys and values side by side, as one product with weights gives them, and of results
   * likewise. Default: contiguous.
   */
  readonly isFused?: boolean;
  /** Keys that a cache has room for. Default: it is full. */
  readonly room?: number;
  /** Of [queries, keys], the same for all heads: added to the scores, or bytes that hide half of the keys. */
  readonly mask?: "additive" | "boolean";
}

/** Elements from a batch, a head and a row to the next, and before the first one. */
interface Places {
  readonly strides: readonly [batch: number, head: number, row: number];
  readonly before: number;
}

/** The places of queries, keys, values and results, and the elements that inputs have. */
function layout(size: Required<Omit<AttentionSize, "dtype" | "mask" | "causal">>) {
  const { batch, heads, kvHeads, length, queries, headSize, room, isFused } = size;
  if (isFused) {
    const row = (heads + 2 * kvHeads) * headSize;
    const beside = (head: number): Places => ({
      strides: [length * row, headSize, row],
      before: head * headSize,
    });
    const results: Places = { strides: [length * heads * headSize, headSize, heads * headSize], before: 0 };
    return {
      inputs: { qkv: batch * length * row },
      ...{ q: beside(0), k: beside(heads), v: beside(heads + kvHeads), out: results },
    };
  }
  const rows = (of: number, count: number): Places => ({
    strides: [of * count * headSize, count * headSize, headSize],
    before: 0,
  });
  const stored = batch * kvHeads * room * headSize;
  const [ofQueries, ofKeys] = [rows(heads, queries), rows(kvHeads, room)];
  return {
    inputs: { q: batch * heads * queries * headSize, k: stored, v: stored },
    ...{ q: ofQueries, k: ofKeys, v: ofKeys, out: ofQueries },
  };
}

export function attention(size: AttentionSize, options: CaseOptions = {}): Case {
  const { dtype = "f32", batch = 1, heads, kvHeads = heads, length, headSize, causal = false } = size;
  const { queries = length, room = length, isFused = false, mask } = size;
  const shape = [
    `batch ${batch}`,
    kvHeads === heads ? `${heads} heads` : `${heads} heads on ${kvHeads}`,
    queries === length ? `length ${length}` : `${queries} query, ${length} keys`,
    `size ${headSize}`,
    ...(causal ? ["causal"] : []),
    ...(isFused ? ["side by side"] : []),
    ...(room === length ? [] : [`room for ${room}`]),
    ...(mask === undefined ? [] : [`${mask} mask`]),
  ];
  const { inputs, ...places } = layout({
    ...{ batch, heads, kvHeads, length, queries, headSize, room, isFused },
  });
  const elements = batch * heads * queries * headSize;
  const first = ({ strides, before }: Places, image: number, head: number, row: number) =>
    before + image * strides[0] + head * strides[1] + row * strides[2];
  const isPlain = !isFused && room === length;
  return operationCase({
    name: shape.join(", "),
    operation: "attention",
    dtype,
    inputs: { ...inputs, ...(mask === undefined ? {} : { mask: queries * length }) },
    ...(mask === "boolean" ? { below: { mask: 2 }, bytes: ["mask"] } : {}),
    output: {
      argument: "out",
      elements,
      ...(isFused ? { place: (index) => placeOf(index) } : {}),
    },
    args(handles) {
      const part = (name: "q" | "k" | "v") =>
        isFused
          ? { handle: handles.qkv!, byteOffset: places[name].before * dtypeBytes[dtype] }
          : handles[name]!;
      return {
        ...{ batch, heads, kvHeads, queryLength: queries, keyLength: length, headSize, causal, dtype },
        ...{ q: part("q"), k: part("k"), v: part("v"), out: handles.out! },
        ...(isPlain
          ? {}
          : {
              ...{ qStrides: places.q.strides, kStrides: places.k.strides, vStrides: places.v.strides },
              outStrides: places.out.strides,
            }),
        ...(mask === undefined
          ? {}
          : {
              ...{ mask: handles.mask!, maskStrides: [0, 0, length, 1] },
              maskDtype: mask === "boolean" ? ("u8" as const) : dtype,
            }),
      };
    },
    expected(data: Inputs, index) {
      const [image, head, row, column] = axesOf(index);
      const [q, k, v] = isFused ? [data.qkv!, data.qkv!, data.qkv!] : [data.q!, data.k!, data.v!];
      const group = Math.floor(head / (heads / kvHeads));
      const query = first(places.q, image, head, row);
      const scores: number[] = [];
      const values: number[] = [];
      let largest = Number.NEGATIVE_INFINITY;
      for (let j = 0; j < (causal ? row + 1 : length); j++) {
        const added = data.mask?.at(row * length + j) ?? 0;
        if (mask === "boolean" && added === 0) continue;
        const key = first(places.k, image, group, j);
        let score = 0;
        for (let d = 0; d < headSize; d++) score += q.at(query + d) * k.at(key + d);
        scores.push(score / Math.sqrt(headSize) + (mask === "additive" ? added : 0));
        values.push(v.at(first(places.v, image, group, j) + column));
        largest = Math.max(largest, scores.at(-1)!);
      }
      const weights = scores.map((score) => Math.exp(score - largest));
      const total = weights.reduce((a, b) => a + b, 0);
      let value = 0;
      let magnitude = 0;
      weights.forEach((weight, j) => {
        const term = (weight / total) * values[j]!;
        value += term;
        magnitude += Math.abs(term);
      });
      // Scores are a few units large at most: the exponential adds a few eps to the bound of the two sums.
      const sums = (2 * length + 2 * headSize + 32) * epsilon.f32 * magnitude;
      return { value, tolerance: sums + storage(dtype, value) };
    },
    problem: {
      ...{ batch, heads, kvHeads, queries, keys: length, headSize, causal, isFused, room },
      ...(mask === undefined ? {} : { mask }),
    },
    ...options,
  });

  /** Image, head, row and column of a result. */
  function axesOf(index: number): readonly [number, number, number, number] {
    const column = index % headSize;
    const row = Math.floor(index / headSize) % queries;
    const head = Math.floor(index / (headSize * queries)) % heads;
    return [Math.floor(index / (headSize * queries * heads)), head, row, column];
  }

  function placeOf(index: number): number {
    const [image, head, row, column] = axesOf(index);
    return first(places.out, image, head, row) + column;
  }
}
