import { type FunctionBuilder, i32, type Local, type Value } from "../../wasm/index.js";
import type { Elements, StoredElements } from "../elements/index.js";

/** Elements that follow one another from an address, which moves on as they are used. */
export interface Stream<Access = Elements> {
  readonly at: Local<"i32">;
  readonly elements: Access;
}

/** Elements that are worth being divided into parts. */
const worthParts = 1024;

export interface VectorMap {
  /** Elements, at least 1. */
  readonly count: Value<"i32">;
  /** Streams, or a vector for each that stays the same. */
  readonly inputs: readonly (Stream | Value<"v128">)[];
  readonly output: Stream<StoredElements>;
  /** Emits the computation of one vector from one of each input. Called for each vector of the loops. */
  readonly compute: (...inputs: readonly Value<"v128">[]) => Value<"v128">;
  /**
   * Vectors per round of the main loop; more than 1 for computations of a few instructions. With f16,
   * which has to be converted, it gains 1% and makes kernels three times as long.
   */
  readonly unroll: number;
  /**
   * Parts of many elements that a loop before the main one walks along side by side, `unroll` vectors of
   * each. From memory, two are 7% faster with one input and 3% with two, as long as each round takes whole
   * lines of the cache; four are not faster than two. Default: 1.
   */
  readonly parts?: number;
}

/** The same with several outputs. */
export interface VectorsMap extends Omit<VectorMap, "output" | "compute"> {
  readonly outputs: readonly Stream<StoredElements>[];
  /** Returns a vector for each output. */
  readonly compute: (...inputs: readonly Value<"v128">[]) => readonly Value<"v128">[];
}

/**
 * output[i] = compute(inputs[i]) for `count` elements. Reads whole vectors, so up to three elements
 * past the end; writes exactly `count` elements. The output may be exactly an input.
 */
export function mapVectors(f: FunctionBuilder, map: VectorMap): void {
  mapToVectors(f, {
    ...map,
    outputs: [map.output],
    compute: (...inputs) => [map.compute(...inputs)],
  });
}

/** outputs[j][i] = compute(inputs[i])[j], likewise. */
export function mapToVectors(f: FunctionBuilder, map: VectorsMap): void {
  const { inputs, outputs, unroll, parts = 1 } = map;
  const remaining = f.let(map.count);
  const streams = new Set<Stream<StoredElements>>([
    ...inputs.filter((input): input is Stream => "at" in input),
    ...outputs,
  ]);
  /** The place of each stream in a part. */
  type Places = ReadonlyMap<Stream<StoredElements>, Local<"i32">>;
  const first: Places = new Map([...streams].map((stream) => [stream, stream.at]));
  const compute = (places: Places, vector: number): readonly Value<"v128">[] => {
    const results = map.compute(
      ...inputs.map((input) =>
        "at" in input
          ? f.let(input.elements.load(places.get(input)!, 4 * vector * input.elements.bytes))
          : input,
      ),
    );
    // Another output may lie over an input.
    return results.length === 1 ? results : results.map((result) => f.let(result));
  };
  const advance = (places: Places, vectors: number): void => {
    for (const [{ elements }, at] of places) f.add(at, 4 * vectors * elements.bytes);
  };

  const emitRounds = (parts: number): void => {
    const rounds = f.let(i32.divU(remaining, 4 * unroll * parts));
    const all = [first];
    while (all.length < parts) {
      const next = ([stream, at]: readonly [Stream<StoredElements>, Local<"i32">]) =>
        [stream, f.let(i32.add(at, i32.mul(rounds, 4 * unroll * stream.elements.bytes)))] as const;
      all.push(new Map([...all.at(-1)!].map(next)));
    }
    f.forRange(0, rounds, () => {
      for (const places of all) {
        for (let vector = 0; vector < unroll; vector++) {
          const results = compute(places, vector);
          for (const [j, { elements }] of outputs.entries())
            elements.store(places.get(outputs[j]!)!, results[j]!, 4 * vector * elements.bytes);
        }
        advance(places, unroll);
      }
    });
    f.set(remaining, i32.sub(remaining, i32.mul(rounds, 4 * unroll * parts)));
    if (parts > 1) for (const [stream, at] of all.at(-1)!) f.set(stream.at, at);
  };
  if (unroll > 1) {
    if (parts > 1) f.if(i32.geU(remaining, worthParts), () => emitRounds(parts));
    emitRounds(1);
  }
  // One loop for whole vectors and for the last part of one keeps large computations from being
  // emitted twice; its branch is predicted well.
  f.while(i32.gtS(remaining, 0), () => {
    const results = compute(first, 0).map((result) => f.let(result));
    f.if(
      i32.geS(remaining, 4),
      () => {
        for (const [j, output] of outputs.entries()) output.elements.store(output.at, results[j]!);
      },
      () => {
        for (const [j, output] of outputs.entries())
          output.elements.storeFirst(output.at, results[j]!, remaining);
      },
    );
    advance(first, 1);
    f.set(remaining, i32.sub(remaining, 4));
  });
}
