import {
  type RandomKind,
  type RandomProblem,
  type RandomType,
  randomKinds,
  randomTypes,
} from "@backplane/core";
import { address, type CpuMemory, type CpuOperation, type Kernel } from "../kernel.js";
import { elementsPerChunk } from "../vector/index.js";
import { type RandomTypes, randomKernel } from "./random.wasm.js";

type Kernels = Readonly<Partial<Record<RandomType, Kernel<RandomTypes>>>>;

const kernels = Object.fromEntries(
  randomKinds.map((kind) => [
    kind,
    Object.fromEntries(randomTypes[kind].map((dtype) => [dtype, randomKernel(kind, dtype)])),
  ]),
) as Readonly<Record<RandomKind, Kernels>>;

/** Returns roughly how long an element takes one worker. */
const nanoseconds = (kind: RandomKind): number => (kind === "normal" ? 2 : 1);

export const random: CpuOperation<RandomProblem<CpuMemory>> = {
  supports: randomKinds.map((kind) => ({ kind: [kind], dtype: randomTypes[kind] })),
  kernels: Object.values(kernels).flatMap((byType) => Object.values(byType)),

  plan({ kind, dtype, count, key, counter, skip, mean, deviation, threshold, output }, { workers }) {
    const words = skip + count;
    const chunkWords = elementsPerChunk(words, workers);
    const parameters = {
      ...{ output: address(output), skip, words, chunkWords },
      ...{ key0: key[0], key1: key[1] },
      ...{ counter0: counter[0], counter1: counter[1], counter2: counter[2], counter3: counter[3] },
      ...{ mean, deviation, threshold },
    };
    const kernel = kernels[kind][dtype]!;
    return [kernel.launch(parameters, Math.ceil(words / chunkWords), count * nanoseconds(kind))];
  },
};
