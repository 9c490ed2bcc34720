// Tags: kernels, pure, long
import { describeBackend, type Law, laws } from "@backplane/conformance";
import { compilesMuch, isOnWideIntegers, meetsMostWithFewest } from "../laws-support.js";
import { lawsOnOperations, withBindingsOf } from "./support.js";

/** The others are met by undivided calls, and make no difference to how one is divided. */
const isTelling = (law: Law) => meetsMostWithFewest(law) || law.name.startsWith("touches");
/** Of kinds of one operation that differ in what they do with two elements, those named first are enough. */
const isOfAnotherKind = ({ name }: Law) => /^(min|prod|argMin|logSoftmax): /.test(name);
const telling = lawsOnOperations.filter(
  (law) => isTelling(law) || !(compilesMuch(law) || isOnWideIntegers(law) || isOfAnotherKind(law)),
);

/** Functions of one element differ in nothing that matters here, and nor do the laws on values. */
const few = ["unary f32: relu", "unary f16: exp", "slices"];
const others = laws.filter(({ topic, dtype, name }) =>
  few.some((start) => `${topic} ${dtype}: ${name}`.startsWith(start)),
);

// Windows are made of 256 bytes, so 19,968 of the 20,000 are used.
describeBackend(
  {
    name: "WebGPU with bindings of 20,000 bytes",
    create: () => withBindingsOf(20_000),
    options: { laws: [...telling.filter((law) => !compilesMuch(law)), ...others], mode: "quick" },
  },
  globalThis,
);
describeBackend(
  {
    name: "WebGPU with bindings of 20,000 bytes, by kernels that take long to compile,",
    create: () => withBindingsOf(20_000),
    options: { laws: telling.filter(compilesMuch), mode: "quick", runs: 1 },
  },
  globalThis,
);
