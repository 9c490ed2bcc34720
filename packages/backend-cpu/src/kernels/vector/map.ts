import { type FunctionBuilder, i32, type Local, type Value } from "../../wasm/index.js";
import type { Elements } from "../convert/elements.js";

/** Elements that follow one another from an address, which moves on as they are used. */
export interface Stream {
  readonly at: Local<"i32">;
  readonly elements: Elements;
}

export interface VectorMap {
  /** Elements, at least 1. */
  readonly count: Value<"i32">;
  /** Streams, or a vector for each that stays the same. */
  readonly inputs: readonly (Stream | Value<"v128">)[];
  readonly output: Stream;
  /** Emits the computation of one vector from one of each input. Called once or twice. */
  readonly compute: (...inputs: readonly Value<"v128">[]) => Value<"v128">;
  /**
   * Vectors per round of the main loop; more than 1 for computations of a few instructions. With f16,
   * which has to be converted, it gains 1% and makes kernels three times as long.
   */
  readonly unroll: number;
}

/**
 * output[i] = compute(inputs[i]) for `count` elements. Reads whole vectors, so up to three elements
 * past the end; writes exactly `count` elements. The output may be exactly an input.
 */
export function mapVectors(f: FunctionBuilder, map: VectorMap): void {
  const { inputs, output, unroll } = map;
  const remaining = f.let(map.count);
  const streams = inputs.filter((input): input is Stream => "at" in input);
  const compute = (vector: number): Value<"v128"> =>
    map.compute(
      ...inputs.map((input) =>
        "at" in input ? f.let(input.elements.load(input.at, 4 * vector * input.elements.bytes)) : input,
      ),
    );
  const advance = (vectors: number): void => {
    for (const { at, elements } of new Set([...streams, output])) f.add(at, 4 * vectors * elements.bytes);
    f.set(remaining, i32.sub(remaining, 4 * vectors));
  };

  if (unroll > 1) {
    f.while(i32.geS(remaining, 4 * unroll), () => {
      for (let vector = 0; vector < unroll; vector++)
        output.elements.store(output.at, compute(vector), 4 * vector * output.elements.bytes);
      advance(unroll);
    });
  }
  // One loop for whole vectors and for the last part of one keeps large computations from being
  // emitted twice; its branch is predicted well.
  f.while(i32.gtS(remaining, 0), () => {
    const result = f.let(compute(0));
    f.if(
      i32.geS(remaining, 4),
      () => output.elements.store(output.at, result),
      () => output.elements.storeFirst(output.at, result, remaining),
    );
    advance(1);
  });
}
