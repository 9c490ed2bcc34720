import type { OwnKernel, Region } from "@backplane/core";
import {
  type ElementType,
  input,
  output,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../program/index.js";
import type { DeviceMemory, KernelContext } from "../runtime/index.js";
import type { RecordOperation } from "./operation.js";
import type { OwnWebGpuKernel } from "./own-kernel.js";

/** The values of a problem under the names that the author of a kernel chose. */
type Held = Readonly<Record<string, unknown>>;

/** A kernel of somebody else's operation, with the program that its text makes. */
export interface OwnProgram {
  readonly own: OwnWebGpuKernel;
  readonly program: Program;
}

export function ownProgram(own: OwnWebGpuKernel): OwnProgram {
  const { operation, operands, parameters = {} } = own;
  const compiled: Program = program({
    name: operation.name,
    bindings: Object.fromEntries(
      Object.entries<ElementType>(operands).map(([name, element]) => {
        const isRead = operation.arguments[name]?.role === "reads";
        return [name, isRead ? input(element) : output(element)];
      }),
    ),
    parameters,
    body: wgsl`${workgroupIndex}${own.wgsl}`,
  });
  return { own, program: compiled };
}

/** Returns the kernel in the form for a driver: it enqueues its problems through `record`. */
export function ownKernel({ own, program }: OwnProgram, record: RecordOperation): OwnKernel {
  const { operation, supports, operands, parameters = {} } = own;
  const [operandNames, parameterNames] = [Object.keys(operands), Object.keys(parameters)];
  const pick = <Value>(problem: Held, names: readonly string[]) =>
    Object.fromEntries(names.map((name) => [name, problem[name] as Value]));
  const run = (context: KernelContext, problem: Held): void => {
    const regions = pick<Region<DeviceMemory>>(problem, operandNames);
    const numbers = pick<number>(problem, parameterNames);
    context.dispatch(program, regions, numbers, own.workgroups(problem as never));
  };
  return {
    ...{ operation, supports },
    run(problem: object): void {
      record(operation.name, (context) => run(context, problem as Held), operation.flops(problem));
    },
  };
}
