import { type ComputeBackend, type DeviceHandle, type DType, operationNames } from "@backplane/core";
import { bytesOf, check, sameBytes } from "../kit/checks.js";
import type { Law } from "../law.js";
import { settled } from "../patience.js";
import { operandSize } from "./bench.js";
import {
  invoke,
  mediumCalls,
  operandBytes,
  operandType,
  smallCalls,
  supportedTypes,
  type TestCall,
  unlessSupported,
} from "./calls.js";
import { recordingLaw as law, withoutRecord } from "./recordings-support.js";

/* Recordings of each operation, compared with its plain calls, and what they leave behind. */

/** The operands of a call, each in an allocation of its own. */
type Places = Readonly<Record<string, DeviceHandle>>;

function allocated(backend: ComputeBackend, call: TestCall, dtype: DType): Places {
  return Object.fromEntries(
    Object.keys(call.operands).map((name) => [name, backend.alloc(operandSize(call, dtype, name))]),
  );
}

function write(backend: ComputeBackend, call: TestCall, dtype: DType, places: Places, round: number): void {
  for (const [index, [name, count]] of Object.entries(call.operands).entries())
    backend.copyHtoD(places[name]!, operandBytes(count, index + round, operandType(call, dtype, name)));
}

/** Memory of somebody else, such as a pool would lend that had got back what a recording still needs. */
function bystanders(backend: ComputeBackend): { readonly size: number; readonly handle: DeviceHandle }[] {
  return [256, 4096, 4096, 65536, 2 ** 20].map((size) => {
    const handle = backend.alloc(size, { zero: false });
    backend.fill(handle, 0xc3, size, "u8");
    return { size, handle };
  });
}

/** The call made by a recording in several rounds, some of them on other operands. */
async function sameAsOneByOne(
  backend: ComputeBackend,
  call: TestCall,
  dtype: DType,
  roundCount: number,
  what: string,
): Promise<void> {
  const names = Object.keys(call.operands);
  const [first, second] = [allocated(backend, call, dtype), allocated(backend, call, dtype)];
  const contents = async (places: Places) =>
    Promise.all(names.map((name) => bytesOf(backend, places[name]!, operandSize(call, dtype, name))));
  const step = backend.record(() => invoke(backend, call, dtype, first));
  const others = bystanders(backend);
  try {
    const rounds = [second, first, first, second, first].slice(0, roundCount);
    for (const [round, places] of rounds.entries()) {
      write(backend, call, dtype, places, round);
      invoke(backend, call, dtype, places);
      const expected = await contents(places);
      write(backend, call, dtype, places, round);
      const operands = new Map(names.map((name) => [first[name]!, places[name]!]));
      step.run(places === first ? undefined : { operands });
      const got = await contents(places);
      for (const [i, name] of names.entries())
        sameBytes(got[i]!, expected[i]!, `${what}: ${name} after run ${round}`);
    }
    for (const { size, handle } of others)
      sameBytes(
        await bytesOf(backend, handle, size),
        new Uint8Array(size).fill(0xc3),
        `${what}: memory of others after it`,
      );
  } finally {
    step.dispose();
    for (const { handle } of others) backend.free(handle);
    for (const handle of [...Object.values(first), ...Object.values(second)]) backend.free(handle);
  }
}

const callOf = { small: smallCalls, medium: mediumCalls };

export const recordedOperationLaws: readonly Law[] = operationNames.map((operation) => ({
  ...law(`${operation}: does the same as its plain call, also on other operands`, async (context) => {
    const { backend, forEach } = context;
    const cases = (["small", "medium"] as const).flatMap((size) => {
      // What a recording keeps of a call does not depend on the element type.
      const dtypes = supportedTypes(backend, callOf[size][operation]).slice(0, 1);
      return dtypes.map((dtype) => ({ size, dtype }));
    });
    const tryOne = ({ size, dtype }: (typeof cases)[number]) => {
      const rounds = size === "small" ? 5 : 2;
      return sameAsOneByOne(
        backend,
        callOf[size][operation],
        dtype,
        rounds,
        `${operation} ${dtype}, ${size}`,
      );
    };
    await forEach(cases, tryOne, { quick: 1 });
  }),
  operation,
  exempt: (capabilities, backend) =>
    withoutRecord(capabilities, backend) ?? unlessSupported(smallCalls[operation])(capabilities, backend),
}));

/** Kernels may have memory of their own, which a recording has to keep and to give back. */
export const noMemoryLeftLaw: Law = {
  ...law("recordings give back what they held", async ({ fresh }) => {
    const backend = await fresh();
    const call = mediumCalls.gemm;
    const [dtype] = supportedTypes(backend, call);
    if (dtype === undefined) return;
    const places = allocated(backend, call, dtype);
    write(backend, call, dtype, places, 0);
    const reserved = async () => {
      await settled(backend.synchronize(), "synchronize");
      return backend.memory().reservedBytes;
    };
    const round = () => {
      const step = backend.record(() => {
        for (let i = 0; i < 4; i++) invoke(backend, call, dtype, places);
      });
      step.run();
      step.run();
      step.dispose();
    };
    for (let i = 0; i < 3; i++) round();
    // Memory that is kept grows each time. What a backend sets up for its own use once it is busy, such as a ring for
    // uploads, is no such memory, and when that happens depends on the machine.
    const sizes = [await reserved()];
    for (let batch = 0; batch < 3; batch++) {
      for (let i = 0; i < 40; i++) round();
      sizes.push(await reserved());
      if (sizes.at(-1)! <= 1.25 * sizes.at(-2)! + 2 ** 20) break;
    }
    check(
      sizes.at(-1)! <= 1.25 * sizes.at(-2)! + 2 ** 20,
      `${sizes.join(", ")} bytes are reserved, with 40 more recordings made and disposed of from one number to the next`,
    );
    for (const handle of Object.values(places)) backend.free(handle);
  }),
  operation: "gemm",
};
