import {
  type ComputeBackend,
  createBackend,
  type OperationName,
  operationNames,
  operations,
} from "@backplane/core";
import type { Defect, Mutant } from "../mutant.js";
import type { ReferenceDriver } from "../reference.js";
import {
  alwaysSomething,
  boastful,
  boundless,
  carefree,
  doubleFree,
  forgetfulPeak,
  hangingReads,
  immortal,
  lateChecks,
  leakyStatistics,
  madeUpReads,
  oneEmpty,
  promiscuous,
  reopening,
  reusingHandles,
  smallTable,
  stuckAfterRefusal,
  unshared,
  untypedErrors,
} from "./faulty-backends.js";
import {
  ClobberingDriver,
  EagerFreeDriver,
  HalfClearedPoolDriver,
  KeptReferenceDriver,
  LateReadDriver,
  LeakingDriver,
  LongCopyDriver,
  ModestDriver,
  PiecewiseCopyDriver,
  ReorderedQueueDriver,
  ShortFillDriver,
  SlicelessDriver,
  StalePoolDriver,
  TruncatedReadDriver,
  WordFillDriver,
} from "./faulty-drivers.js";
import {
  AsideDriver,
  BorrowingDriver,
  FewArgumentsDriver,
  HoardingDriver,
  LazyDriver,
} from "./queued-drivers.js";

/** With no operand but the output, a call shows neither a mistaken place of another nor a write before a refusal. */
const ofSeveralOperands = operationNames.filter((name) => operations[name].operands.length > 1);

const anySequence = "stateful: any sequence of calls does what the same calls on plain bytes do";
const swapAndBack = "swapping: handles and contents outlive a swap to another backend and back";
const memoryHandles = "errors: memory calls refuse freed, foreign and forged handles";
const memoryArguments = "errors: memory calls refuse bad sizes, offsets and values, and change nothing";
const pendingAtDispose = "lifecycle: dispose settles what is pending: with the right answer or as DISPOSED";

const drivers: readonly [
  name: string,
  defect: Defect,
  description: string,
  killedBy: readonly string[],
  driver: () => ReferenceDriver,
  operation?: OperationName,
][] = [
  [
    "stale bytes from a pool",
    "memory",
    "memory that is used again is not cleared",
    ["memory: fresh bytes are zero, also where memory is used again", anySequence],
    () => new StalePoolDriver(),
  ],
  [
    "truncated readback",
    "memory",
    "the last bytes of a read are lost where its length is no multiple of 4",
    [
      "memory: copyDtoH gives exactly the bytes asked for, at any offset and length",
      anySequence,
      swapAndBack,
      "swapping: a swap that fails loses nothing",
    ],
    () => new TruncatedReadDriver(),
  ],
  [
    "copyHtoD keeps a reference",
    "order",
    "the source is read when the write is carried out, not at the call",
    ["memory: copyHtoD takes the bytes at the call", anySequence],
    () => new KeptReferenceDriver(),
  ],
  [
    "reordered queue",
    "order",
    "a write takes effect after the call that follows it",
    ["memory: a read sees the effects of all calls before it and of none after", anySequence],
    () => new ReorderedQueueDriver(),
  ],
  [
    "read of the future",
    "order",
    "a read sees calls that were made after it",
    ["memory: a read sees the effects of all calls before it and of none after", anySequence],
    () => new LateReadDriver(),
  ],
  [
    "memory given up too early",
    "order",
    "freed memory is used again while enqueued work still reads it",
    ["memory: work that was enqueued completes though its memory is freed"],
    () => new EagerFreeDriver(),
  ],
  [
    "copy one byte past the end",
    "memory",
    "copyDtoD rounds its length up",
    ["memory: copyDtoD copies any bytes to any place that does not overlap", anySequence],
    () => new LongCopyDriver(),
  ],
  [
    "fill in whole words",
    "memory",
    "the last elements of a fill are lost where they do not make up a word",
    ["memory: fill writes exactly its elements, in every element type", anySequence],
    () => new WordFillDriver(),
  ],
  [
    "freed memory is kept for good",
    "lifecycle",
    "free gives nothing back to the device",
    ["memory: rounds of work leave nothing behind"],
    () => new LeakingDriver(),
  ],
  [
    "slices taken for whole allocations",
    "stride",
    "the offset of an input is dropped where another operand lies in the same allocation",
    ofSeveralOperands.map((name) => `slices: ${name}: all operands may be slices of one allocation`),
    () => new SlicelessDriver(),
  ],
  [
    "clears the beginning of reused memory",
    "memory",
    "the first 64 KiB of memory that is used again are cleared, and no more",
    ["reach: large memory that is used again is zero to its end"],
    () => new HalfClearedPoolDriver(),
  ],
  [
    "pieces copied from the start",
    "memory",
    "each 256 KiB of a long copy are the first ones",
    ["memory: 8 MiB go there and back", "reach: large copies arrive whole, from any offset at any offset"],
    () => new PiecewiseCopyDriver(),
  ],
  [
    "fills one piece",
    "memory",
    "a fill ends after 256 KiB",
    [
      "ordering: writes that wait for their turn disturb nothing, even where memory was freed under work",
      "reach: large fills reach their end, and no further",
    ],
    () => new ShortFillDriver(),
  ],
  [
    "counts no reserved memory",
    "lifecycle",
    "reservedBytes is always 0",
    ["memory: statistics are exact"],
    () => new ModestDriver(),
  ],
  [
    "room for 64 calls",
    "lifecycle",
    "the scalars of calls that wait are overwritten by those of later calls",
    ["ordering: binary: thousands of calls that are under way keep their own arguments"],
    () => new FewArgumentsDriver(),
    "binary",
  ],
  [
    "writes wait in freed memory",
    "order",
    "bytes from the host are put where enqueued work still reads",
    ["ordering: writes that wait for their turn disturb nothing, even where memory was freed under work"],
    () => new BorrowingDriver(),
  ],
  [
    "reads copied aside over each other",
    "memory",
    "the bytes of a pending read wait in memory that was freed, of which another pending read is",
    ["memory: pending reads find their bytes though all they read is freed"],
    () => new AsideDriver(),
  ],
  [
    "attention put off",
    "lifecycle",
    "looks at its operands when somebody asks for bytes, not when its turn has come",
    ["ordering: attention: uses its operands as they are at the call"],
    () => new LazyDriver("attention"),
    "attention",
  ],
  [
    "memory kept at each batch",
    "lifecycle",
    "memory of its own is not given back",
    ["resources: batchedGemm: rounds of calls leave nothing behind"],
    () => new HoardingDriver("batchedGemm"),
    "batchedGemm",
  ],
  [
    "memory kept at each unary",
    "lifecycle",
    "memory of its own is not given back",
    ["memory: rounds of work leave nothing behind", "resources: unary: rounds of calls leave nothing behind"],
    () => new HoardingDriver("unary"),
    "unary",
  ],
  [
    "in-place clobbers",
    "order",
    "the output is written before all of its inputs have been read",
    [
      "in-place: unary may write exactly over its input",
      "in-place: binary may write exactly over either input",
    ],
    () => new ClobberingDriver(),
  ],
];

const wrappers: readonly [
  name: string,
  defect: Defect,
  description: string,
  killedBy: readonly string[],
  create: () => ComputeBackend,
  hangs?: "hangs",
][] = [
  [
    "handle reuse",
    "lifecycle",
    "the number of a freed handle is issued again, so that stale handles reach new memory",
    ["memory: handles are positive whole numbers that survive JSON and are never reused", anySequence],
    reusingHandles,
  ],
  [
    "double free accepted",
    "lifecycle",
    "a second free passes in silence",
    [memoryHandles, anySequence],
    doubleFree,
  ],
  [
    "statistics leak",
    "lifecycle",
    "freed bytes are still counted as live",
    ["memory: statistics are exact", anySequence],
    leakyStatistics,
  ],
  [
    "dispose leaves reads hanging",
    "lifecycle",
    "pending reads never settle",
    [pendingAtDispose],
    hangingReads,
    "hangs",
  ],
  [
    "made-up data at dispose",
    "lifecycle",
    "pending reads answer with zeros",
    [pendingAtDispose],
    madeUpReads,
  ],
  [
    "checks after enqueueing",
    "errors",
    "a refused call has already written something",
    [
      memoryArguments,
      ...operationNames.map((name) => `errors: ${name}: malformed arguments are refused`),
      ...ofSeveralOperands.map((name) => `errors: ${name}: freed, foreign and forged handles are refused`),
    ],
    lateChecks,
  ],
  [
    "ignores unknown names",
    "errors",
    "a misspelt argument or option counts as none",
    [memoryArguments, ...operationNames.map((name) => `errors: ${name}: malformed arguments are refused`)],
    carefree,
  ],
  [
    "something for nothing",
    "edge",
    "an operation of size 0 writes an element",
    operationNames.map((name) => `errors: ${name}: nothing to compute is legal and writes nothing`),
    alwaysSomething,
  ],
  [
    "untyped errors",
    "errors",
    "errors have no code",
    ["errors: unary: malformed arguments are refused"],
    untypedErrors,
  ],
  [
    "init is not shared",
    "lifecycle",
    "every call of init starts over",
    ["lifecycle: init opens once, however often it is called"],
    reopening,
  ],
  [
    "memory counted after dispose",
    "lifecycle",
    "statistics of a closed backend are those of its last moment",
    ["lifecycle: after dispose every call is refused as DISPOSED"],
    immortal,
  ],
  [
    "peak forgotten",
    "lifecycle",
    "peakBytes is what is live now",
    [
      "memory: statistics are exact",
      "stateful: any sequence of calls does what the same calls on plain bytes do",
    ],
    forgetfulPeak,
  ],
  [
    "one empty allocation",
    "memory",
    "all allocations of 0 bytes have one handle",
    ["memory: an allocation of 0 bytes is one", "swapping: a swap that fails loses nothing"],
    oneEmpty,
  ],
  [
    "table full",
    "memory",
    "no more than 512 allocations at a time",
    ["reach: a thousand allocations live side by side"],
    smallTable,
  ],
  [
    "no shared memory",
    "memory",
    "seen in a WebGPU binding: views of shared memory are rejected, with an error of its own",
    ["memory: host arrays of every kind show their own range"],
    unshared,
  ],
  [
    "types that nothing takes",
    "errors",
    "f16 is listed, and no operation takes it",
    [
      "supports: gemm in f16: declared calls work, undeclared ones throw UNSUPPORTED",
      "supports: batchedGemm in f16: declared calls work, undeclared ones throw UNSUPPORTED",
    ],
    boastful,
  ],
  [
    "foreign handles accepted",
    "lifecycle",
    "a handle of another backend reaches memory of this one",
    ["lifecycle: two backends side by side know nothing of each other"],
    promiscuous,
  ],
  [
    "allocation without limit",
    "errors",
    "a size that cannot be had is accepted",
    ["memory: an allocation past the limit is refused as OUT_OF_MEMORY, and nothing else"],
    boundless,
  ],
  [
    "stuck after a refused allocation",
    "lifecycle",
    "one refused allocation makes all later ones fail",
    ["memory: an allocation past the limit is refused as OUT_OF_MEMORY, and nothing else"],
    stuckAfterRefusal,
  ],
];

/** Defects of memory, lifecycle and order. */
export const contractMutants: readonly Mutant[] = [
  ...drivers.map(([name, defect, description, killedBy, driver, operation]): Mutant => {
    const where = operation === undefined ? {} : { operation };
    return { name, defect, ...where, description, killedBy, create: () => createBackend(driver()) };
  }),
  ...wrappers.map(([name, defect, description, killedBy, create, hangs]): Mutant => {
    const ends = hangs === undefined ? {} : { hangs: true as const };
    return { name, defect, description, killedBy, ...ends, create };
  }),
];
