import { dtypeBytes, type FloatType, type IntegerType } from "@backplane/core";
import type { BufferRegion, KernelContext } from "../../runtime/index.js";
import { storeRounded } from "../halves.js";
import type { Binding, Sink } from "./lines.wgsl.js";

/** Bytes of a key, of a tag, and of a result. */
export const WORD = 4;

/** Rows that follow one another. */
export interface Rows {
  readonly dtype: FloatType | IntegerType;
  readonly count: number;
  readonly length: number;
  /** Results of each row. */
  readonly kept: number;
  readonly flip: number;
}

export interface Elements {
  readonly data: BufferRegion;
}

export interface Records {
  readonly keys: BufferRegion;
  readonly tags: BufferRegion;
}

/** Values are of 4 bytes. */
export interface Results {
  readonly values?: BufferRegion | undefined;
  readonly indices?: BufferRegion | undefined;
}

export type Sources = Elements | Records;
export type Sinks = Records | Results;

export function sinkOf(sink: Sinks): Sink {
  if ("keys" in sink) return "records";
  return sink.values === undefined ? "indices" : sink.indices === undefined ? "values" : "both";
}

/** By the names of bindings. */
export function regionsOf<Other extends string = never>(
  source: Sources,
  sink: Sinks,
  others: Readonly<Record<Other, BufferRegion>> = {} as Record<Other, BufferRegion>,
): Readonly<Record<Binding | Other, BufferRegion>> {
  const results = { ...sink };
  for (const name of ["values", "indices"] as const)
    if ((results as Results)[name] === undefined)
      delete (results as { values?: unknown; indices?: unknown })[name];
  return {
    ...("data" in source ? source : { source_keys: source.keys, source_tags: source.tags }),
    ...results,
    ...others,
  } as Record<Binding | Other, BufferRegion>;
}

/** Where kernels write results, and how those get to where they belong. */
export interface Placed {
  readonly results: Results;
  store(): void;
}

/**
 * Results of kernels that write whole words, in any order, to two buffers: results of less than a word, and those of
 * which one buffer has both, lie in scratch first.
 */
export function placed(
  context: KernelContext,
  dtype: Rows["dtype"],
  values: BufferRegion | undefined,
  indices: BufferRegion | undefined,
): Placed {
  const round = values === undefined ? undefined : storeRounded[dtype];
  const columns = values === undefined ? 0 : values.byteLength / dtypeBytes[dtype];
  const found = round === undefined ? values : context.scratch(WORD * columns);
  const isTogether = indices !== undefined && found?.memory === indices.memory;
  const places = isTogether ? context.scratch(indices.byteLength) : indices;
  return {
    results: { values: found, indices: places },
    store() {
      round?.(context, found!, values!, { batch: 1, rows: 1, columns });
      if (isTogether) context.copy(indices, places!);
    },
  };
}
