import type { UnaryProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { unaryFunctions } from "../../functions.js";
import type { Evaluate } from "../operation.js";
import { unaryTolerance } from "./tolerance.js";

export const evaluate: Evaluate<UnaryProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { kind, dtype, n, input, output } = problem;
  const apply = unaryFunctions[kind];
  const values = memory.read(input, dtype);
  const write = memory.write(output, dtype);
  for (let i = 0; i < n; i++) {
    const x = values[i]!;
    const y = apply(x);
    write(i, y, numerics === undefined ? 0 : unaryTolerance(kind, x, y, dtype, numerics));
  }
};
