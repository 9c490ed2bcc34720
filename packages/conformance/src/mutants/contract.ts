import { type ComputeBackend, createBackend, operationNames } from "@backplane/core";
import type { ReferenceDriver } from "../reference.js";
import {
  alwaysSomething,
  boundless,
  doubleFree,
  hangingReads,
  immortal,
  lateChecks,
  leakyStatistics,
  madeUpReads,
  promiscuous,
  reopening,
  reusingHandles,
  stuckAfterRefusal,
  untypedErrors,
} from "./faulty-backends.js";
import {
  ClobberingDriver,
  EagerFreeDriver,
  KeptReferenceDriver,
  LateReadDriver,
  LeakingDriver,
  LongCopyDriver,
  ReorderedQueueDriver,
  SlicelessDriver,
  StalePoolDriver,
  TruncatedReadDriver,
  WordFillDriver,
} from "./faulty-drivers.js";
import type { Mutant } from "./mutant.js";

const anySequence = "stateful: any sequence of calls does what the same calls on plain bytes do";
const swapAndBack = "swapping: handles and contents outlive a swap to another backend and back";
const memoryHandles = "errors: memory calls refuse freed, foreign and forged handles";
const memoryArguments = "errors: memory calls refuse bad sizes, offsets and values, and change nothing";
const pendingAtDispose = "lifecycle: dispose settles what is pending: with the right answer or as DISPOSED";

const drivers: readonly [
  name: string,
  description: string,
  killedBy: readonly string[],
  driver: () => ReferenceDriver,
][] = [
  [
    "stale bytes from a pool",
    "memory that is used again is not cleared",
    ["memory: fresh bytes are zero, also where memory is used again", anySequence],
    () => new StalePoolDriver(),
  ],
  [
    "truncated readback",
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
    "the source is read when the write is carried out, not at the call",
    ["memory: copyHtoD takes the bytes at the call", anySequence],
    () => new KeptReferenceDriver(),
  ],
  [
    "reordered queue",
    "a write takes effect after the call that follows it",
    ["memory: a read sees the effects of all calls before it and of none after", anySequence],
    () => new ReorderedQueueDriver(),
  ],
  [
    "read of the future",
    "a read sees calls that were made after it",
    ["memory: a read sees the effects of all calls before it and of none after", anySequence],
    () => new LateReadDriver(),
  ],
  [
    "memory given up too early",
    "freed memory is used again while enqueued work still reads it",
    ["memory: work that was enqueued completes though its memory is freed"],
    () => new EagerFreeDriver(),
  ],
  [
    "copy one byte past the end",
    "copyDtoD rounds its length up",
    ["memory: copyDtoD copies any bytes to any place that does not overlap", anySequence],
    () => new LongCopyDriver(),
  ],
  [
    "fill in whole words",
    "the last elements of a fill are lost where they do not make up a word",
    ["memory: fill writes exactly its elements, in every element type", anySequence],
    () => new WordFillDriver(),
  ],
  [
    "freed memory is kept for good",
    "free gives nothing back to the device",
    ["memory: rounds of work leave nothing behind"],
    () => new LeakingDriver(),
  ],
  [
    "slices taken for whole allocations",
    "the offset of an input is dropped where another operand lies in the same allocation",
    operationNames
      .filter((name) => name !== "binary")
      .map((name) => `slices: ${name}: all operands may be slices of one allocation`),
    () => new SlicelessDriver(),
  ],
  [
    "in-place clobbers",
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
  description: string,
  killedBy: readonly string[],
  create: () => ComputeBackend,
][] = [
  [
    "handle reuse",
    "the number of a freed handle is issued again, so that stale handles reach new memory",
    ["memory: handles are positive whole numbers that survive JSON and are never reused", anySequence],
    reusingHandles,
  ],
  ["double free accepted", "a second free passes in silence", [memoryHandles, anySequence], doubleFree],
  [
    "statistics leak",
    "freed bytes are still counted as live",
    ["memory: statistics are exact", anySequence],
    leakyStatistics,
  ],
  ["dispose leaves reads hanging", "pending reads never settle", [pendingAtDispose], hangingReads],
  ["made-up data at dispose", "pending reads answer with zeros", [pendingAtDispose], madeUpReads],
  [
    "checks after enqueueing",
    "a refused call has already written something",
    [
      memoryArguments,
      ...operationNames.map((name) => `errors: ${name}: malformed arguments are refused`),
      ...operationNames.map((name) => `errors: ${name}: freed, foreign and forged handles are refused`),
    ],
    lateChecks,
  ],
  [
    "something for nothing",
    "an operation of size 0 writes an element",
    operationNames.map((name) => `errors: ${name}: nothing to compute is legal and writes nothing`),
    alwaysSomething,
  ],
  [
    "untyped errors",
    "errors have no code",
    ["errors: unary: malformed arguments are refused"],
    untypedErrors,
  ],
  [
    "init is not shared",
    "every call of init starts over",
    ["lifecycle: init opens once, however often it is called"],
    reopening,
  ],
  [
    "memory counted after dispose",
    "statistics of a closed backend are those of its last moment",
    ["lifecycle: after dispose every call is refused as DISPOSED"],
    immortal,
  ],
  [
    "foreign handles accepted",
    "a handle of another backend reaches memory of this one",
    ["lifecycle: two backends side by side know nothing of each other"],
    promiscuous,
  ],
  [
    "allocation without limit",
    "a size that cannot be had is accepted",
    ["memory: an allocation past the limit is refused as OUT_OF_MEMORY, and nothing else"],
    boundless,
  ],
  [
    "stuck after a refused allocation",
    "one refused allocation makes all later ones fail",
    ["memory: an allocation past the limit is refused as OUT_OF_MEMORY, and nothing else"],
    stuckAfterRefusal,
  ],
];

/** Defects of memory, lifecycle and order. */
export const contractMutants: readonly Mutant[] = [
  ...drivers.map(([name, description, killedBy, driver]): Mutant => {
    return { name, description, killedBy, create: () => createBackend(driver()) };
  }),
  ...wrappers.map(([name, description, killedBy, create]): Mutant => {
    return { name, description, killedBy, create };
  }),
];
