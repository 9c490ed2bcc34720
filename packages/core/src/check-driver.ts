import { checkAccuracy } from "./accuracy.js";
import type { BackendDriver, DriverDescription } from "./driver.js";
import { type DType, dtypes } from "./dtype.js";
import { describe } from "./handles.js";
import { checkNames } from "./names.js";
import { Checks } from "./ops/checks.js";
import { transformedConvolutionNames } from "./ops/conv2d/transforms.js";
import { operations } from "./ops/index.js";
import type { Operation } from "./ops/operation.js";

const methods = [
  ...["open", "close", "synchronize", "alloc", "free", "write", "read", "copy", "fill", "reservedBytes"],
  "native",
];

/** The arguments of any operation that decide whether a backend can run a call. */
const anywhere = new Set(
  Object.values(operations).flatMap(({ decisive }) => decisive.map(({ argument }) => argument)),
);

/**
 * Throws `INVALID_ARGUMENT` if a driver lacks a member, or if its kernels are for operations, arguments or values that do
 * not exist. Without this a misspelt name would make an operation unsupported, and the conformance suite skip its laws.
 */
export function checkDriver<Memory>(driver: BackendDriver<Memory>): void {
  const checks = new Checks("createBackend");
  checks.object("driver", driver);
  const { name, kernels } = driver;
  if (typeof name !== "string" || name === "")
    checks.fail("name", `is ${describe(name)}; allowed: a text of at least one letter`);
  for (const method of methods) assertFunction(checks, method, driver[method as keyof typeof driver]);
  checkNames("createBackend", kernels, Object.keys(operations) as never[], "kernels");
  for (const [operation, kernel] of Object.entries(kernels))
    if (kernel !== undefined)
      checkKernel(checks, `kernels.${operation}`, kernel, operations[operation as never]);
  for (const [i, kernel] of (driver.ownKernels ?? []).entries())
    checkKernel(checks, `ownKernels[${i}]`, kernel, kernel.operation);
}

/** What `open` must return. A list has the values that are allowed. */
const required = {
  device: {
    kind: ["cpu", "gpu", "other"],
    name: "a text",
    software: [true, false],
    details: "an object",
  },
  limits: { maxAllocationBytes: "a whole number of bytes" },
  numerics: {
    nan: ["kept", "unspecified"],
    infinity: ["kept", "unspecified"],
    subnormals: ["kept", "flushed"],
    signedZero: ["kept", "unspecified"],
    rounding: ["nearest-even", "unspecified"],
    deterministic: [true, false],
  },
} as const;

const tests = {
  "a text": (value: unknown) => typeof value === "string" && value !== "",
  "an object": (value: unknown) => typeof value === "object" && value !== null && !Array.isArray(value),
  "a whole number of bytes": (value: unknown) => Number.isSafeInteger(value) && (value as number) > 0,
} as const;

/**
 * Throws `INVALID_ARGUMENT` if the result of a driver's `open` lacks a member, or has one that is not allowed. Without this
 * the calls that need it would fail, much later.
 */
export function checkDescription(description: DriverDescription): void {
  const refuse = (place: string, value: unknown, allowed: string): never =>
    new Checks("init").fail(place, `is ${describe(value)} in the result of open(); allowed: ${allowed}`);
  const test = (place: string, value: unknown, allowed: readonly unknown[] | keyof typeof tests): void => {
    if (typeof allowed === "string" ? tests[allowed](value) : allowed.includes(value)) return;
    refuse(place, value, typeof allowed === "string" ? allowed : allowed.join(", "));
  };
  const object: unknown = description;
  if (!tests["an object"](object))
    new Checks("init").fail(
      "open()",
      `returned ${describe(object)}; allowed: an object with ${Object.keys(required).join(", ")}`,
    );
  for (const [part, members] of Object.entries(required)) {
    const given = description[part as keyof typeof required] as unknown as Record<string, unknown>;
    test(part, given, "an object");
    for (const [member, allowed] of Object.entries(members))
      test(`${part}.${member}`, given[member], allowed);
  }
  const { accuracy, numerics, synchronousReads = false } = description;
  const { transformedConvolutions = "never" } = numerics;
  test("numerics.transformedConvolutions", transformedConvolutions, transformedConvolutionNames);
  test("synchronousReads", synchronousReads, [true, false]);
  if (accuracy !== undefined) checkAccuracy("init", accuracy);
}

function checkKernel(
  checks: Checks,
  place: string,
  kernel: { readonly supports: unknown; readonly run: unknown },
  { decisive }: Operation,
): void {
  checks.object(place, kernel);
  assertFunction(checks, `${place}.run`, kernel.run);
  const { supports } = kernel;
  if (!Array.isArray(supports))
    checks.fail(
      `${place}.supports`,
      `is ${describe(supports)}; allowed: a list such as [{ dtype: ["f32"] }]`,
    );
  for (const [i, support] of supports.entries()) {
    const entry = `${place}.supports[${i}]`;
    checks.object(entry, support);
    // Kernels of several operations may declare for all what only one of them has.
    if (Object.keys(support).some((argument) => !anywhere.has(argument)))
      checkNames("createBackend", support, decisive.map(({ argument }) => argument) as never[], entry);
    for (const { argument, role, values, default: fallback } of decisive) {
      const listed = support[argument];
      const isType = role === "elementType";
      if (listed === undefined && isType && fallback !== undefined)
        checks.fail(entry, `has no ${argument} and so no calls; allowed: ${argument} with a list of types`);
      if (listed === undefined || listed === true) continue;
      const known: readonly unknown[] = (isType ? dtypes : values) ?? [true, false];
      if (!Array.isArray(listed))
        checks.fail(`${entry}.${argument}`, `is ${describe(listed)}; allowed: true, or a list of values`);
      for (const value of listed)
        if (!known.includes(value as DType))
          checks.fail(`${entry}.${argument}`, `has ${describe(value)}; allowed: ${known.join(", ")}`);
    }
  }
}

function assertFunction(checks: Checks, place: string, value: unknown): void {
  if (typeof value !== "function") checks.fail(place, `is ${describe(value)}; allowed: a function`);
}
