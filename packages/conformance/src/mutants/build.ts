import {
  type Accuracy,
  type ComputeBackend,
  createBackend,
  type DriverKernels,
  type Kernel,
  type OperationName,
  type OperationProblems,
} from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../elements.js";
import type { Builder } from "../mutant.js";
import { correctlyRounded, ReferenceDriver, referenceKernels } from "../reference.js";
import { altered } from "./faulty-backends.js";

type Problem<Name extends OperationName> = OperationProblems<ReferenceMemory>[Name];
type Kernels = DriverKernels<ReferenceMemory>;

/** Makes defective backends; the functions may be used by themselves. */
export const builder: Builder = {
  withKernels(replaced, declared = {}) {
    class Broken extends ReferenceDriver {
      override readonly name: string = "mutant";
      override readonly kernels: Kernels = { ...referenceKernels, ...replaced };
      override readonly accuracy: Accuracy = {
        unary: { ...correctlyRounded.unary, ...declared.unary },
        binary: { ...correctlyRounded.binary, ...declared.binary },
      };
    }
    return createBackend(new Broken());
  },

  tampered: (names, change) => builder.replaced(names, (problem, run) => run(change(problem))),

  replaced<Name extends OperationName>(
    names: Name | readonly Name[],
    body: (problem: Problem<Name>, run: (problem: Problem<Name>) => void) => void,
    declared?: Accuracy,
  ): ComputeBackend {
    const kernels = [names].flat().map((name) => {
      const kernel = referenceKernels[name] as Kernel<Problem<Name>>;
      return [name, { ...kernel, run: (problem: Problem<Name>) => body(problem, kernel.run) }];
    });
    return builder.withKernels(Object.fromEntries(kernels) as Kernels, declared);
  },

  replacedFunction(kind, apply, units) {
    const declared: Accuracy = units === undefined ? {} : { unary: { [kind]: [{ units }] } };
    return builder.replaced(
      "unary",
      (problem, run) => {
        if (problem.kind !== kind) return run(problem);
        const store = storeInto(problem.output, problem.dtype);
        for (const [i, x] of load(problem.input, problem.dtype).entries()) store(i, apply(x));
      },
      declared,
    );
  },

  altered,
};
