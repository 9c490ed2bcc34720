// Tags: kernels, pure, long
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { describeBackend, type Law, laws } from "@backplane/conformance";
import { operationNames } from "@backplane/core";
import { compilesMuch, isOnWideIntegers, meetsMostWithFewest, soonCompiled } from "./laws-support.js";

/**
 * Operands above what a binding shows are worked on in parts. Real limits start at 128 MiB; with lower
 * ones the small cases of the laws go the same ways. Which of them are divided depends on the limit.
 */
const operations = operationNames.filter((name) => name !== "unary");
const onOperations = laws.filter(({ topic }) => (operations as readonly string[]).includes(topic));
/** The others are met by undivided calls, and make no difference to how one is divided. */
const isTelling = (law: Law) => meetsMostWithFewest(law) || law.name.startsWith("touches");
/** Of kinds of one operation that differ in what they do with two elements, those named first are enough. */
const isOfAnotherKind = ({ name }: Law) => /^(min|prod|argMin|logSoftmax): /.test(name);
const telling = onOperations.filter(
  (law) => isTelling(law) || !(compilesMuch(law) || isOnWideIntegers(law) || isOfAnotherKind(law)),
);

/** Functions of one element differ in nothing that matters here, and nor do the laws on values. */
const few = ["unary f32: relu", "unary f16: exp", "slices"];
const others = laws.filter(({ topic, dtype, name }) =>
  few.some((start) => `${topic} ${dtype}: ${name}`.startsWith(start)),
);

// How a call is divided is decided before its kernels are, so these are the ones that compile soonest.
// Windows are made of 256 bytes, so 19,968 of the 20,000 are used.
describeBackend(
  {
    name: "WebGPU with bindings of 20,000 bytes",
    create: () => createWebGpuBackend({ ...soonCompiled, limits: { maxStorageBufferBindingSize: 20_000 } }),
    options: { laws: [...telling.filter((law) => !compilesMuch(law)), ...others], mode: "quick" },
  },
  globalThis,
);
describeBackend(
  {
    name: "WebGPU with bindings of 20,000 bytes, by kernels that take long to compile,",
    create: () => createWebGpuBackend({ ...soonCompiled, limits: { maxStorageBufferBindingSize: 20_000 } }),
    options: { laws: telling.filter(compilesMuch), mode: "quick", runs: 1 },
  },
  globalThis,
);

// Nearly everything is divided, and again; large shapes would take long.
describeBackend(
  {
    name: "WebGPU with bindings of 1 KiB",
    create: () => createWebGpuBackend({ ...soonCompiled, limits: { maxStorageBufferBindingSize: 1024 } }),
    options: {
      laws: onOperations.filter(
        ({ name }) => name.endsWith("is exact on whole numbers") || name.startsWith("touches"),
      ),
      mode: "quick",
    },
  },
  globalThis,
);
