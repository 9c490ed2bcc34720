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
import type { DeviceMemory, KernelDefinition, OperationContext } from "../runtime/index.js";
import type { OwnWebGpuKernel } from "./own-kernel.js";

/** The values of a problem under the names that the author of a kernel chose. */
type Held = Readonly<Record<string, unknown>>;

export function ownKernel(
  own: OwnWebGpuKernel,
  record: (operation: string, enqueue: (context: OperationContext) => void, flops: number) => void,
): OwnKernel {
  const { operation, supports } = own;
  const { run } = definitionOf(own);
  const bound = (problem: object): void =>
    record(operation.name, (context) => run(context, problem as Held), operation.flops(problem));
  return { operation, supports, run: bound };
}

function definitionOf(own: OwnWebGpuKernel): KernelDefinition<Held> {
  const { operation, operands, parameters = {}, supports } = own;
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
  const [operandNames, parameterNames] = [Object.keys(operands), Object.keys(parameters)];
  const pick = <Value>(problem: Held, names: readonly string[]) =>
    Object.fromEntries(names.map((name) => [name, problem[name] as Value]));
  return {
    supports,
    run(context, problem) {
      const regions = pick<Region<DeviceMemory>>(problem, operandNames);
      const numbers = pick<number>(problem, parameterNames);
      context.dispatch(compiled, regions, numbers, own.workgroups(problem as never));
    },
  };
}
