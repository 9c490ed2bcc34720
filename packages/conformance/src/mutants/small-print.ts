import { BackendError, type ComputeBackend, operationNames } from "@backplane/core";
import type { Mutant } from "../mutant.js";
import { altered, missesFirst, spreading } from "./faulty-backends.js";

const afterDispose = "lifecycle: after dispose every call is refused as DISPOSED";
const memoryHandles = "errors: memory calls refuse freed, foreign and forged handles";
const memoryArguments = "errors: memory calls refuse bad sizes, offsets and values, and change nothing";

/** Defects in rules that the contract states only in passing. */
export const smallPrintMutants: readonly Mutant[] = [
  {
    name: "listens only while it is open",
    defect: "lifecycle",
    description: "Listeners cannot be added before init, which is when programs add them.",
    killedBy: ["lifecycle: before init every call is refused as NOT_INITIALIZED"],
    create: () =>
      altered((right) => ({
        onError(listener) {
          void right.capabilities;
          return right.onError(listener);
        },
      })),
  },
  {
    name: "await using ends nothing",
    defect: "lifecycle",
    description: "Symbol.asyncDispose is there for the types.",
    killedBy: [afterDispose],
    create: () => altered(() => ({ [Symbol.asyncDispose]: async () => {} })),
  },
  {
    name: "names no method in errors about memory",
    defect: "errors",
    description: "Checks are made by a helper that does not know who asked.",
    killedBy: [memoryHandles, memoryArguments],
    create: () => altered(anonymousErrors),
  },
  {
    name: "checks no places of copies of nothing",
    defect: "errors",
    description: "Returns early where there is nothing to copy.",
    killedBy: [memoryArguments],
    create: () =>
      altered((right) => ({
        fill(destination, value, count, dtype) {
          if (count !== 0) right.fill(destination, value, count, dtype);
        },
      })),
  },
  {
    name: "misses an argument before it sees a wrong name",
    defect: "errors",
    description: "Says that c is missing where C was given.",
    killedBy: operationNames.map(
      (name) => `errors: ${name}: an argument by a wrong name is refused by that name`,
    ),
    create: missesFirst,
  },
  {
    name: "spreads arguments",
    defect: "errors",
    description: "Makes copies of arguments, in which what their objects inherit is lost.",
    killedBy: operationNames.map(
      (name) => `errors: ${name}: arguments and operands may have getters of a class`,
    ),
    create: spreading,
  },
  {
    name: "fills with zeros for NaN",
    defect: "memory",
    description: "The pattern of a fill is made by a conversion that has no NaN.",
    killedBy: ["memory: fill writes exactly its elements, in every element type"],
    create: () =>
      altered((right) => ({
        fill: (destination, value, ...rest) =>
          right.fill(destination, Number.isNaN(value) ? 0 : value, ...rest),
      })),
  },
];

function anonymousErrors(right: ComputeBackend): Partial<ComputeBackend> {
  const anonymous =
    <Args extends unknown[], Result>(call: (...args: Args) => Result) =>
    (...args: Args): Result => {
      try {
        return call(...args);
      } catch (error) {
        const { code, message } = error as BackendError;
        throw new BackendError(code, message);
      }
    };
  return {
    free: anonymous((handle) => right.free(handle)),
    copyDtoD: anonymous((...args) => right.copyDtoD(...args)),
  };
}
