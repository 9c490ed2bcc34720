/** For tests of operations on images. */
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { describeBackend, laws } from "@backplane/conformance";
import {
  dtypeBytes,
  type OperationArguments,
  type OperationProblems,
  resolveOperation,
} from "@backplane/core";
import type { DeviceMemory } from "#src/runtime/index.js";

type Image = "pool2d" | "pool2dGradient" | "resize2d" | "resize2dGradient";

/** The problem of a call, whose operands have no memory and begin at these bytes. */
export function problemAt<Name extends Image>(
  operation: Name,
  args: OperationArguments[Name],
  at: Readonly<Record<string, number>>,
): OperationProblems<DeviceMemory>[Name] {
  return resolveOperation<Name, DeviceMemory>(operation, args, {
    region: (name, _operand, elements, dtype) => ({
      ...{ memory: {} as DeviceMemory, byteOffset: at[name] ?? 0 },
      byteLength: elements * dtypeBytes[dtype],
    }),
  }) as OperationProblems<DeviceMemory>[Name];
}

/** Programs with more workgroups than one dimension has start up to a row of them too many. */
export function describeTwoDimensions(operation: Image, telling: readonly string[]): void {
  describeBackend(
    {
      name: `WebGPU ${operation} in grids of two dimensions`,
      create: () => createWebGpuBackend({ limits: { maxComputeWorkgroupsPerDimension: 12 } }),
      options: {
        laws: laws.filter(
          ({ topic, name }) => topic === operation && telling.some((ending) => name.endsWith(ending)),
        ),
        mode: "quick",
      },
    },
    globalThis,
  );
}
