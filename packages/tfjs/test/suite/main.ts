import { writeFileSync } from "node:fs";
import { createRequire, register as registerHooks } from "node:module";
import { parseArgs } from "node:util";
import type { SuiteResult, SuiteSpec } from "./result.js";

/* Runs the suite of tfjs-core, without any list of exclusions, on one backend, and writes a SuiteResult:

     node main.js cpu FILE [--grep TEXT] [--host-elements N]

   Unless N says otherwise, all that a device can compute is computed there.

   It is a program of its own because Jasmine and TensorFlow.js are one of a kind in a process. */

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { grep: { type: "string" }, "host-elements": { type: "string", default: "0" } },
});
const [backendName = "cpu", file] = positionals;

const require = createRequire(import.meta.url);
// The suite says require() inside of ES modules.
(globalThis as { require?: unknown }).require = require;
registerHooks(new URL("./hooks.js", import.meta.url));

/** Imports what has no types. */
const load = (specifier: string) => import(specifier);

// Jasmine's globals come before any file of tests.
const Jasmine = require("jasmine");
const runner = new Jasmine({});
const { env } = runner;
runner.clearReporters();
env.configure({ random: false, hideDisabled: false });
runner.jasmine.DEFAULT_TIMEOUT_INTERVAL = 60_000;

const tf = await load("@tensorflow/tfjs-core");
await load("@tensorflow/tfjs-core/dist/public/chained_ops/register_all_chained_ops");
await load("@tensorflow/tfjs-core/dist/register_all_gradients");
const { providersOf } = await import("./providers.js");
const { register } = await import("@backplane/tfjs");
const hostElements = Number(options["host-elements"]);
const registration = await register(tf, await providersOf(backendName), { hostElements });

// Files of tests read the environments while they are loaded.
const { setTestEnvs, setupTestFilters } = await load("@tensorflow/tfjs-core/dist/jasmine_util");
const isDataSync = registration.capabilities.synchronousReads;
setTestEnvs([{ name: `backplane-${backendName}`, backendName: registration.name, isDataSync }]);
// One suite starts a worker with a bundle of TensorFlow.js that only its own repository has.
setupTestFilters([], (name: string) => !name.includes("computation in worker"));
await load("@tensorflow/tfjs-core/dist/tests");

if (options.grep !== undefined) {
  const { specFilter } = env.configuration();
  const text = options.grep;
  env.configure({
    specFilter: (spec: { getFullName(): string }) => spec.getFullName().includes(text) && specFilter(spec),
  });
}

interface SpecReport {
  readonly fullName: string;
  readonly status: string;
  readonly failedExpectations: readonly { readonly message: string; readonly stack?: string }[];
}

const specs: SuiteSpec[] = [];
const suiteFailures: string[] = [];
runner.exitOnCompletion = false;
runner.addReporter({
  specDone({ fullName, status, failedExpectations }: SpecReport) {
    const [first] = failedExpectations;
    specs.push({
      name: fullName,
      status: status === "passed" || status === "failed" ? status : "skipped",
      ...(first === undefined
        ? {}
        : { message: options.grep === undefined ? first.message : `${first.message}\n${first.stack}` }),
    });
  },
  suiteDone({ fullName, failedExpectations }: SpecReport) {
    for (const { message } of failedExpectations) suiteFailures.push(`${fullName}: ${message}`);
  },
});
const begun = performance.now();
await runner.execute();
const count = (status: SuiteSpec["status"]) => specs.filter((spec) => spec.status === status).length;
const { device } = registration.capabilities;
const relaxedSimd = device.details.relaxedSimd;
const result: SuiteResult = {
  // What is multiplied and added in one step is rounded once: some results differ by a unit in the last place.
  backends: [backendName, ...(relaxedSimd === "in use" ? [`${backendName} with relaxed SIMD`] : [])],
  device: device.name,
  ...{ passed: count("passed"), failed: count("failed"), skipped: count("skipped") },
  milliseconds: performance.now() - begun,
  specs,
  suiteFailures,
};
if (file !== undefined) writeFileSync(file, JSON.stringify(result, undefined, 1));
const { passed, failed, skipped, milliseconds } = result;
console.log(
  `${backendName}: ${passed} passed, ${failed} failed, ${skipped} skipped, ${(milliseconds / 1000).toFixed(1)} s`,
);
for (const failure of suiteFailures) console.log(failure);
process.exit(0);
