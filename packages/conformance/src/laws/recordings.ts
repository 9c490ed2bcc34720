import type { ComputeBackend, DeviceHandle, Operand } from "@backplane/core";
import { bytesOf, check, pattern, refuses, rejects, sameBytes, withAllocations } from "../kit/checks.js";
import type { Law } from "../law.js";
import { noMemoryLeftLaw, recordedOperationLaws } from "./recordings-of-operations.js";
import { lostRecordingLaws, swappedRecordingLaw } from "./recordings-on-devices.js";
import { holds, integersAt, recordingLaw as law } from "./recordings-support.js";

/** Integers that wrap: exact on every backend. */
function canAdd(backend: ComputeBackend): boolean {
  return backend.supports("binary", { kind: "add", dtype: "i32" });
}

/** Adds a number to each of the first elements of an allocation. */
function addTo(backend: ComputeBackend, place: Operand, count: number, scalar: number): void {
  backend.binary({ kind: "add", dtype: "i32", n: count, a: place, b: { scalar }, output: place });
}

const nothingYet = law(
  "recording carries nothing out, and takes its arguments at the call",
  async ({ backend }) => {
    await withAllocations(backend, [16, 16, 16], async (a, b, c) => {
      backend.fill(a, 1, 4, "i32");
      const slice = { handle: a, byteOffset: 4 };
      const args = { kind: "neg" as const, n: 4, input: a, output: c };
      const isNegatable = backend.supports("unary", { kind: "neg" });
      const step = backend.record(() => {
        backend.copyDtoD({ handle: b, byteOffset: 0 }, slice, 4);
        backend.fill({ handle: b, byteOffset: 12 }, 7, 1, "i32");
        if (isNegatable) backend.unary(args);
      });
      slice.byteOffset = 12;
      args.n = 0;
      args.input = b;
      await holds(backend, b, [0, 0, 0, 0], "an output after record()");
      backend.copyHtoD(a, Int32Array.of(10, 11, 12, 13));
      step.run();
      await holds(backend, b, [11, 0, 0, 7], "an output after the first run");
      const negated = [...(await integersAt(backend, c, 4))];
      const sign = isNegatable ? -(2 ** 31) : 0;
      const expected = [10, 11, 12, 13].map((bits) => (isNegatable ? bits | sign : 0));
      // Subnormal numbers may be flushed.
      check(
        negated.every((value, i) => value === expected[i] || value === sign || value === 0),
        `an operation after its arguments were changed gave ${negated.join(", ")}`,
      );
      step.dispose();
    });
  },
);

const inOrder = law(
  "runs, plain calls, writes and reads take effect in the order in which they are made",
  async ({ backend }) => {
    await withAllocations(backend, [16, 16, 16], async (a, b, other) => {
      const step = backend.record(() => {
        backend.copyDtoD({ handle: b, byteOffset: 4 }, a, 12);
        backend.copyDtoD(a, b, 16);
        backend.fill(b, 9, 1, "i32");
      });
      // The same on the host.
      let [hostA, hostB] = [
        [0, 0, 0, 0],
        [0, 0, 0, 0],
      ];
      const onHost = () => {
        hostB = [hostB[0]!, ...hostA.slice(0, 3)];
        hostA = [...hostB];
        hostB = [9, ...hostB.slice(1)];
      };
      const reads: Promise<void>[] = [];
      for (let round = 1; round <= 6; round++) {
        backend.fill(b, round, 1, "i32");
        hostB = [round, ...hostB.slice(1)];
        step.run();
        onHost();
        reads.push(holds(backend, a, hostA, `a after run ${round}`));
        backend.copyHtoD({ handle: a, byteOffset: 8 }, Int32Array.of(100 * round));
        hostA = hostA.map((value, i) => (i === 2 ? 100 * round : value));
        reads.push(holds(backend, b, hostB, `b after run ${round}`));
        if (round % 2 === 0) {
          step.run({ operands: new Map([[a, other]]) });
          backend.copyDtoD(other, a, 16);
          hostB = [9, 0, 0, 0];
          backend.fill({ handle: b, byteOffset: 4 }, 0, 3, "i32");
        }
      }
      await Promise.all(reads);
      step.dispose();
    });
  },
);

const values = law("values reach the parts that vary, for one run only", async ({ backend }) => {
  await withAllocations(backend, [64, 64], async (table, log) => {
    backend.copyHtoD(
      table,
      Int32Array.from({ length: 16 }, (_, i) => 100 + i),
    );
    let calls = 0;
    const step = backend.record(
      (vary: (part: (values: { readonly position: number; readonly count: number }) => void) => void) => {
        backend.fill(log, -1, 16, "i32");
        vary(({ position, count }) => {
          calls++;
          backend.copyDtoD(
            { handle: log, byteOffset: 4 * position },
            { handle: table, byteOffset: 4 * position },
            4 * count,
          );
          for (let i = 0; i < count; i++) backend.fill({ handle: log, byteOffset: 4 * i }, 7, 1, "i32");
        });
        backend.fill({ handle: log, byteOffset: 60 }, position15, 1, "i32");
      },
      { position: 3, count: 1 },
    );
    const expected = (position: number, count: number) =>
      Array.from({ length: 16 }, (_, i) => {
        if (i === 15) return position15;
        if (i < count) return 7;
        return i >= position && i < position + count ? 100 + i : -1;
      });
    for (const [position, count] of [
      [undefined, undefined],
      [5, undefined],
      [5, 4],
      [undefined, 0],
      [undefined, undefined],
    ] as const) {
      const given = {
        ...(position === undefined ? {} : { position }),
        ...(count === undefined ? {} : { count }),
      };
      step.run(position === undefined && count === undefined ? undefined : { values: given });
      const what = `after a run with ${JSON.stringify(given)}`;
      const made = calls;
      step.run(position === undefined && count === undefined ? undefined : { values: given });
      check(
        calls === made,
        `a part that varies was made again, though its values are those of the run before`,
      );
      await holds(backend, log, expected(position ?? 3, count ?? 1), what);
    }
    refuses("INVALID_ARGUMENT", "a value that the recording does not have", () =>
      step.run({ values: { place: 3 } as never }),
    );
    step.dispose();
  });
});
const position15 = 1234;

const rebinding = law(
  "other operands take the place of recorded ones, for one run only",
  async ({ backend }) => {
    await withAllocations(backend, [16, 16, 48, 8], async (a, b, large, small) => {
      backend.copyHtoD(a, Int32Array.of(1, 2, 3, 4));
      backend.copyHtoD(
        large,
        Int32Array.from({ length: 12 }, (_, i) => 10 + i),
      );
      const step = backend.record(() => {
        backend.copyDtoD(b, { handle: a, byteOffset: 4 }, 12);
        backend.fill({ handle: b, byteOffset: 12 }, 5, 1, "i32");
      });
      step.run();
      await holds(backend, b, [2, 3, 4, 5], "the recorded operands");
      step.run({ operands: new Map<DeviceHandle, Operand>([[a, { handle: large, byteOffset: 8 }]]) });
      await holds(backend, b, [13, 14, 15, 5], "a slice in place of an operand");
      step.run();
      await holds(backend, b, [2, 3, 4, 5], "the recorded operands again");
      step.run({ operands: new Map<DeviceHandle, Operand>([[b, { handle: large, byteOffset: 16 }]]) });
      await holds(backend, large, [10, 11, 12, 13, 2, 3, 4, 5, 18], "another output");
      backend.fill(b, 0, 4, "i32");
      const untouched = async (what: string) => holds(backend, b, [0, 0, 0, 0], `the output after ${what}`);
      for (const [what, code, operands] of [
        ["a handle that no call uses", "INVALID_ARGUMENT", new Map([[large, a]])],
        ["an operand that is too short", "OUT_OF_BOUNDS", new Map([[a, small]])],
        ["a second operand that is too short", "OUT_OF_BOUNDS", new Map([[b, small]])],
        ["operands that overlap", "INVALID_ARGUMENT", new Map([[a, b]])],
        ["something else than a handle", "INVALID_HANDLE", new Map([[a, "a"]])],
        ["a bad offset", "INVALID_ARGUMENT", new Map([[a, { handle: large, byteOffset: 0.5 }]])],
        ["no map", "INVALID_ARGUMENT", { [a]: large }],
      ] as const) {
        refuses(code, what, () => step.run({ operands: operands as never }));
        await untouched(what);
      }
      step.run();
      await holds(backend, b, [2, 3, 4, 5], "the recorded operands after all of that");
      step.dispose();
    });
  },
);

const freed = law("a run is refused whole if an operand was freed", async ({ backend }) => {
  await withAllocations(backend, [16, 16], async (a, b) => {
    const late = backend.alloc(16);
    const other = backend.alloc(16);
    const step = backend.record(() => {
      backend.fill(a, 3, 4, "i32");
      backend.copyDtoD(b, late, 16);
    });
    step.run();
    backend.fill(a, 0, 4, "i32");
    backend.free(other);
    refuses("INVALID_HANDLE", "a run with an operand that was freed", () =>
      step.run({ operands: new Map([[late, other]]) }),
    );
    step.run();
    await holds(backend, a, [3, 3, 3, 3], "an output of a run before the free");
    backend.fill(a, 0, 4, "i32");
    backend.free(late);
    const error = refuses("INVALID_HANDLE", "a run after a free", () => step.run());
    check(error.message.includes("source"), `the message names no argument: ${error.message}`);
    const live = backend.alloc(16);
    refuses("INVALID_HANDLE", "a run with a freed operand replaced", () =>
      step.run({ operands: new Map([[late, live]]) }),
    );
    backend.free(live);
    await holds(backend, a, [0, 0, 0, 0], "an output of a run that was refused");
    refuses("INVALID_HANDLE", "recording a freed operand", () =>
      backend.record(() => backend.copyDtoD(b, late, 16)),
    );
    step.dispose();
  });
});

const disposed = law(
  "a recording that was disposed of is refused, and what it enqueued still happens",
  async ({ backend }) => {
    await withAllocations(backend, [16], async (a) => {
      const step = backend.record(() => backend.fill(a, 3, 4, "i32"));
      step.run();
      step.dispose();
      step.dispose();
      refuses("DISPOSED", "a run after dispose", () => step.run());
      await holds(backend, a, [3, 3, 3, 3], "an output of a run before dispose");
      {
        using empty = backend.record(() => {});
        empty.run();
      }
    });
  },
);

const refusals = law(
  "calls that cannot be recorded are refused, and a body that fails records nothing",
  async ({ backend }) => {
    await withAllocations(backend, [16, 16], async (a, b) => {
      backend.fill(b, 1, 4, "i32");
      const outside = backend.record(() => backend.fill(a, 8, 4, "i32"));
      const pending: Promise<unknown>[] = [];
      const before = backend.memory();
      const step = backend.record(() => {
        backend.fill(a, 3, 2, "i32");
        for (const [name, call] of [
          ["alloc", () => backend.alloc(4)],
          ["free", () => backend.free(a)],
          ["copyHtoD", () => backend.copyHtoD(a, new Uint8Array(16))],
          ["flush", () => backend.flush()],
          ["trim", () => backend.trim()],
          ["native", () => backend.native()],
          ["record", () => backend.record(() => {})],
          ["run of another recording", () => outside.run()],
        ] as const)
          refuses("BUSY", `${name} while calls are recorded`, call);
        pending.push(
          rejects("BUSY", "copyDtoH while calls are recorded", () => backend.copyDtoH(new Uint8Array(1), a)),
          rejects("BUSY", "synchronize while calls are recorded", () => backend.synchronize()),
        );
        refuses("OUT_OF_BOUNDS", "a bad call while calls are recorded", () => backend.copyDtoD(a, b, 17));
        check(backend.state === "open", `the state is ${backend.state} while calls are recorded`);
        backend.copyDtoD({ handle: a, byteOffset: 8 }, b, 8);
      });
      await Promise.all(pending);
      check(
        backend.memory().liveBytes === before.liveBytes,
        "a call that was refused while calls were recorded has changed the memory",
      );
      step.run();
      await holds(backend, a, [3, 3, 1, 1], "the calls around those that were refused");
      const failure = new Error("the body fails");
      let caught: unknown;
      try {
        backend.record(() => {
          backend.fill(a, 4, 4, "i32");
          throw failure;
        });
      } catch (error) {
        caught = error;
      }
      check(caught === failure, `record() threw ${String(caught)}, not what its body threw`);
      refuses("INVALID_ARGUMENT", "an asynchronous body", () => backend.record(async () => {}));
      refuses("INVALID_ARGUMENT", "no body", () => backend.record(undefined as never));
      await holds(backend, a, [3, 3, 1, 1], "after bodies that failed");
      backend.fill(a, 6, 4, "i32");
      await holds(backend, a, [6, 6, 6, 6], "a plain call after bodies that failed");
      outside.run();
      await holds(backend, a, [8, 8, 8, 8], "another recording after that");
      for (const one of [step, outside]) one.dispose();
    });
  },
);

/** More calls than any queue or batch holds. */
const many = law(
  "thousands of dependent calls in one recording all happen, in order, in every run",
  async ({ backend }) => {
    if (!canAdd(backend)) return;
    await withAllocations(backend, [16, 16], async (a, b) => {
      const count = 1500;
      const step = backend.record(() => {
        for (let i = 0; i < count; i++) {
          addTo(backend, a, 4, i);
          // Doubles it now and then, so that the order shows.
          if (i % 500 === 499) {
            backend.copyDtoD(b, a, 16);
            backend.binary({ kind: "add", dtype: "i32", n: 4, a, b, output: a });
          }
        }
      });
      let expected = 0;
      for (let run = 0; run < 3; run++) {
        step.run();
        for (let i = 0; i < count; i++) {
          expected = (expected + i) | 0;
          if (i % 500 === 499) expected = (2 * expected) | 0;
        }
      }
      await holds(backend, a, [expected, expected, expected, expected], "after 3 runs");
      step.dispose();
    });
  },
);

const freshZeros = law(
  "memory that reads as zeros does so though a recording was made on it",
  async ({ backend }) => {
    // Freed memory comes back from a pool.
    for (let round = 0; round < 3; round++) {
      const used = backend.alloc(4096);
      backend.fill(used, 0xee, 4096, "u8");
      backend.free(used);
      await withAllocations(backend, [4096, 4096], async (a, b) => {
        using step = backend.record(() => {
          backend.copyDtoD({ handle: b, byteOffset: 64 }, a, 64);
          backend.fill(a, 7, 1024, "i32");
        });
        sameBytes(await bytesOf(backend, a, 4096), new Uint8Array(4096), "what a recording would fill");
        step.run();
        step.run();
        const expected = new Int32Array(1024).fill(7, 16, 32);
        sameBytes(await bytesOf(backend, b, 4096), expected, "what a recording copied to");
      });
    }
  },
);

/** Reads of what is written later, and writes of what is being read. */
const reads = law("a read sees the runs before it and none after it", async ({ backend }) => {
  await withAllocations(backend, [1024, 1024], async (a, b) => {
    const step = backend.record(() => {
      backend.copyDtoD(a, b, 1024);
      backend.fill(b, 0x11, 1024, "u8");
    });
    const images = Array.from({ length: 5 }, (_, round) => pattern(1024, round));
    const pending: Promise<void>[] = [];
    for (const [round, image] of images.entries()) {
      backend.copyHtoD(b, image);
      step.run();
      pending.push(bytesOf(backend, a, 1024).then((got) => sameBytes(got, image, `round ${round}`)));
    }
    await Promise.all(pending);
    step.dispose();
  });
});

export const recordingLaws: readonly Law[] = [
  ...recordedOperationLaws,
  nothingYet,
  inOrder,
  reads,
  values,
  rebinding,
  freed,
  disposed,
  refusals,
  many,
  noMemoryLeftLaw,
  freshZeros,
  swappedRecordingLaw,
  ...lostRecordingLaws,
];
