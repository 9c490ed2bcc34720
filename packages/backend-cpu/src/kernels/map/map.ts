import { dtypeBytes, floatTypes, type MapElementType, type MapProblem } from "@backplane/core";
import type { Local } from "../../wasm/index.js";
import {
  address,
  type CpuMemory,
  type CpuOperation,
  defineKernel,
  helpersFor,
  type Launch,
  maxParameters,
  type PlanContext,
  wordOf,
} from "../kernel.js";
import { type RowChunks, rowChunks } from "../vector/index.js";
import { emitMap, headWords, type MapTile, nanosecondsOf } from "./map.wasm.js";

type Problem = MapProblem<CpuMemory>;

/** Words that one command stores. */
const wordsPerStore = maxParameters - 1;

/** Stores its parameters behind the first, which says where: for kernels with more than a block holds. */
const storeWords = defineKernel({
  name: "map_words",
  parameters: {
    at: "i32",
    ...(Object.fromEntries(Array.from({ length: wordsPerStore }, (_, i) => [`word${i}`, "i32"])) as Record<
      `word${number}`,
      "i32"
    >),
  },
  emit(f, { parameters }) {
    const { at, ...words } = parameters;
    for (const [i, word] of (Object.values(words) as readonly Local<"i32">[]).entries())
      f.store(at, word, 4 * i);
  },
});

/** The kernels of structures that have been met, apart from what a call decides. */
function tileOf(problem: Problem, indirect: boolean): MapTile {
  const { steps, inputs, outputs, parameters, shape } = problem;
  return {
    steps,
    inputs: inputs.map(({ dtype, strides }) => ({ dtype, repeats: strides.at(-1) === 0 })),
    outputs: outputs.map(({ dtype, result }) => ({ dtype, result })),
    parameters: parameters.map(({ type }) => type),
    ...{ axes: Math.max(shape.length, 1), indirect },
  };
}

/** What every kernel reads first. */
interface Head extends Omit<RowChunks, "chunks"> {
  readonly inner: number;
  readonly rows: number;
}

/** The words of a launch, `count` of them, in the order in which the kernel reads them. */
function mapWords(
  { inputs, outputs, parameters, shape }: Problem,
  head: Head,
  count: number,
): readonly number[] {
  const words = new Array<number>(count);
  words[0] = head.inner;
  words[1] = head.rows;
  words[2] = head.rowsPerChunk;
  words[3] = head.chunkElements;
  words[4] = head.chunksPerRow;
  let next = headWords;
  for (let i = 0; i < inputs.length; i++) words[next++] = address(inputs[i]!.region) | 0;
  for (let i = 0; i < outputs.length; i++) words[next++] = address(outputs[i]!.region) | 0;
  for (let i = 0; i < parameters.length; i++) {
    const { type, value } = parameters[i]!;
    words[next++] = wordOf(type === "f32" ? "f32" : "i32", value);
  }
  for (let axis = 0; axis < shape.length - 1; axis++) {
    words[next++] = shape[axis]!;
    for (let i = 0; i < inputs.length; i++) {
      const { dtype, strides } = inputs[i]!;
      words[next++] = strides[axis]! * dtypeBytes[dtype];
    }
  }
  return words;
}

/** What is known of a kernel. */
interface Known {
  readonly name: string;
  /** Roughly how long an element takes one worker. */
  readonly nanoseconds: number;
}

/** By the key of the structure, and then by what a call decides. */
const known = new Map<string, Map<number, Known>>();

/** More structures are hardly in use at the same time. */
const mostKnown = 4096;

/**
 * The kernel of a structure with `outer` axes before the last. It has the same text for a name each time: to look up a new
 * one takes as long as all else of a small call, for it has hundreds of letters.
 */
function kernelOf({ key, inputs, steps }: Problem, outer: number): Known {
  // At most 8 axes and 16 inputs.
  let form = outer;
  for (let i = 0; i < inputs.length; i++) {
    const { strides } = inputs[i]!;
    form = 2 * form + (strides[strides.length - 1] === 0 ? 1 : 0);
  }
  let ofKey = known.get(key);
  if (ofKey === undefined) {
    if (known.size >= mostKnown) known.clear();
    ofKey = new Map();
    known.set(key, ofKey);
  }
  let found = ofKey.get(form);
  if (found === undefined) {
    const repeats = inputs.map(({ strides }) => (strides.at(-1) === 0 ? "r" : "f")).join("");
    found = { name: `map ${key} ${repeats} ${outer}`, nanoseconds: nanosecondsOf(steps) };
    ofKey.set(form, found);
  }
  return found;
}

function plan(problem: Problem, { workers, late, workspace }: PlanContext): readonly Launch[] {
  const { shape, n, inputs, outputs, parameters } = problem;
  const inner = shape[shape.length - 1] ?? 1;
  const rows = n / inner;
  const { rowsPerChunk, chunkElements, chunksPerRow, chunks } = rowChunks(rows, inner, workers);
  const outer = Math.max(shape.length - 1, 0);
  const count = headWords + inputs.length + outputs.length + parameters.length + outer * (1 + inputs.length);
  const indirect = count > maxParameters;
  const { name, nanoseconds } = kernelOf(problem, outer);
  late(name, (module) => emitMap(module, tileOf(problem, indirect)));
  const words = mapWords(problem, { inner, rows, rowsPerChunk, chunkElements, chunksPerRow }, count);
  const total = n * nanoseconds;
  const helpers = helpersFor(chunks, total);
  if (!indirect) return [{ kernel: name, words, chunks, helpers, nanoseconds: total }];

  const stores = Math.ceil(words.length / wordsPerStore);
  const at = workspace(4 * wordsPerStore * stores);
  const launches: Launch[] = [];
  for (let i = 0; i < stores; i++) {
    const part = words.slice(i * wordsPerStore, (i + 1) * wordsPerStore);
    while (part.length < wordsPerStore) part.push(0);
    launches.push(storeWords.launchList([at + 4 * wordsPerStore * i, ...part], 1, 0));
  }
  launches.push({ kernel: name, words: [at | 0], chunks, helpers, nanoseconds: total });
  return launches;
}

const types: readonly MapElementType[] = ["f32", "f16", "i32", "u32", "u8"];

export const map: CpuOperation<Problem> = {
  supports: [{ dtype: floatTypes, inputTypes: types, outputTypes: types }],
  kernels: [storeWords],
  plan,
};
