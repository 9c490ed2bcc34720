import { parseArgs } from "node:util";
import type { WebGpuTier } from "@backplane/backend-webgpu";
import type { Size } from "./cases/tables.js";
import { oneOf } from "./command-line.js";
import {
  type Configuration,
  type ConfigurationName,
  configuration,
  configurationNames,
  customConfiguration,
} from "./configurations.js";

const tierNames: readonly WebGpuTier[] = ["baseline", "subgroups", "shader-f16", "subgroup-matrices"];

const names = Object.entries(configurationNames).map(([name, text]) => `    ${name.padEnd(28)} ${text}`);

export const help: string = `Times the operations of backends. Each result is checked against float64 before it is timed.

  --size SIZE            small (two cores, software adapters) or large (GPUs); default small
  --configuration NAME   may be repeated, several run side by side; default: default and cpu
${names.join("\n")}
  --tier TIER            one more configuration: WebGPU with this tier
  --dawn-enable A,B      that configuration with these toggles of Dawn
  --threads N            worker threads of the cpu backend
  --blas PATH            the library of cpu-blas; default: OpenBLAS, MKL or Accelerate, where there is one
  --only TEXT            only cases whose name contains TEXT; may be repeated
  --sweep                curves of time against size in place of single figures
  --table                single figures, too, with --sweep
  --anchor COMMAND       a process to compare with, such as "python3 bench/anchors/torch_anchor.py"
  --rounds N             how often everybody is timed, in turns; default 5
  --milliseconds N       how long one sample lasts at least; default 50
  --peak-f32 N           TFLOP/s that the device could reach; known for some devices
  --peak-f16 N           the same of its matrix units
  --json FILE            also write everything that was measured
  --list                 only the names of the cases
  --help                 this text

Interrupted (SIGINT, SIGTERM), it finishes the case under way and writes what there is.
Exit code: 0, 1 where a result was wrong or could not be computed, 2 on bad usage.`;

export interface Options {
  readonly size: Size;
  readonly configurations: readonly Configuration[];
  readonly only: readonly string[];
  readonly sweep: boolean;
  readonly table: boolean;
  readonly anchor: string | undefined;
  readonly rounds: number;
  readonly milliseconds: number;
  readonly peakF32: number | undefined;
  readonly peakF16: number | undefined;
  readonly json: string | undefined;
  readonly list: boolean;
  readonly help: boolean;
}

/** Returns the options. Throws an error with the allowed arguments if `args` differ from those of `help`. */
export function parseOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      size: { type: "string", default: "small" },
      configuration: { type: "string", multiple: true, default: [] },
      tier: { type: "string" },
      "dawn-enable": { type: "string" },
      threads: { type: "string" },
      blas: { type: "string" },
      only: { type: "string", multiple: true, default: [] },
      sweep: { type: "boolean", default: false },
      table: { type: "boolean", default: false },
      anchor: { type: "string" },
      rounds: { type: "string", default: "5" },
      milliseconds: { type: "string", default: "50" },
      "peak-f32": { type: "string" },
      "peak-f16": { type: "string" },
      json: { type: "string" },
      list: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  const { sweep } = values;
  const size = oneOf("size", values.size, ["small", "large"]);
  const threads = optional("threads", values.threads);
  const enable = values["dawn-enable"]?.split(",") ?? [];
  const tier = values.tier === undefined ? undefined : oneOf("tier", values.tier, tierNames);
  const custom = tier !== undefined || enable.length > 0;
  const chosen = values.configuration.length > 0 || custom ? values.configuration : ["default", "cpu"];
  const allowed = Object.keys(configurationNames) as ConfigurationName[];
  const configurations = chosen.map((name) =>
    configuration(oneOf("configuration", name, allowed), { threads, blas: values.blas }),
  );
  if (custom) configurations.push(customConfiguration(tier, enable));
  return {
    size,
    configurations,
    only: values.only,
    sweep,
    table: values.table || !sweep,
    anchor: values.anchor,
    rounds: positive("rounds", values.rounds, true),
    milliseconds: positive("milliseconds", values.milliseconds, false),
    peakF32: optional("peak-f32", values["peak-f32"]),
    peakF16: optional("peak-f16", values["peak-f16"]),
    json: values.json,
    list: values.list,
    help: values.help,
  };
}

function optional(name: string, text: string | undefined): number | undefined {
  return text === undefined ? undefined : positive(name, text, name === "threads");
}

function positive(name: string, text: string, whole: boolean): number {
  const value = Number(text);
  if (!(value > 0) || !Number.isFinite(value) || (whole && !Number.isInteger(value)))
    throw new Error(`--${name} is ${text}; allowed: ${whole ? "whole numbers" : "numbers"} above 0`);
  return value;
}
