import { parseArgs } from "node:util";
import { type TransformedConvolutions, transformedConvolutionNames } from "@backplane/core";
import { oneOf } from "../command-line.js";
import { type PeerName, peerKinds, peerNames } from "./peer.js";
import { peerRows } from "./rows.js";

const peerLines = peerNames.map((name) => `    ${name.padEnd(20)} ${peerKinds[name]}`).join("\n");

export const help: string = `Times the CPU backend next to other libraries, all in turns in one process. Each result is
compared with float64 before it is timed. Installs the libraries into bench/peers where they are missing.

  --threads N        on so many threads; may be repeated; default 1 and 2
  --only TEXT        only rows whose name contains TEXT; may be repeated
  --peer NAME        only this library; may be repeated; default all of
${peerLines}
  --blas PATH        large products of ours by this native library; auto: OpenBLAS, MKL or Accelerate
  --transforms TILE  3x3 convolutions of ours by transforms of tiles of 2x2 or 4x4 outputs; default never
  --rounds N         how often everybody is timed; default 7
  --milliseconds N   how long one sample lasts at least; default 150
  --json FILE        where everything that was measured goes; default report/cpu.json
  --svg FILE         where the plot goes; default report/cpu.svg
  --from FILE        measures nothing, but tells and draws what was written before; may be repeated for
                     --into, while the plot is of the first
  --into FILE        also writes the tables into this Markdown file, between its markers, without goals
  --list             only the names of the rows
  --help             this text

A library that is missing, or does a row wrong or not at all, is named with the reason.
Exit code: 0, 1 where a result of ours was wrong or missing, 2 on bad usage.`;

export interface CpuOptions {
  readonly threads: readonly number[];
  /** Names of rows. */
  readonly rows: readonly string[];
  readonly peers: readonly PeerName[];
  /** A path or "auto"; undefined: WebAssembly only. */
  readonly blas: string | undefined;
  /** The option `transformedConvolutions` of ours. */
  readonly transforms: TransformedConvolutions;
  readonly rounds: number;
  readonly milliseconds: number;
  readonly json: string;
  readonly svg: string;
  /** Results that were written before; none: measures. */
  readonly from: readonly string[];
  readonly into: string | undefined;
  readonly list: boolean;
  readonly help: boolean;
}

/** Returns the options. Throws an error with the allowed arguments if `args` differ from those of `help`. */
export function parseCpuOptions(args: readonly string[]): CpuOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      threads: { type: "string", multiple: true, default: ["1", "2"] },
      only: { type: "string", multiple: true, default: [] },
      peer: { type: "string", multiple: true, default: [] },
      blas: { type: "string" },
      transforms: { type: "string", default: "never" },
      rounds: { type: "string", default: "7" },
      milliseconds: { type: "string", default: "150" },
      json: { type: "string", default: "report/cpu.json" },
      svg: { type: "string", default: "report/cpu.svg" },
      from: { type: "string", multiple: true, default: [] },
      into: { type: "string" },
      list: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  const { only } = values;
  const peers = values.peer.map((name) => oneOf("peer", name, peerNames));
  const transforms = oneOf("transforms", values.transforms, transformedConvolutionNames);
  const names = peerRows.map(({ test }) => test.name);
  const rows = only.length === 0 ? names : names.filter((name) => only.some((text) => name.includes(text)));
  if (rows.length === 0)
    throw new Error(`--only is ${only.join(" or ")}; allowed: a part of a name that --list gives`);
  return {
    threads: values.threads.map((text) => wholeNumber("threads", text)),
    rows,
    peers: peers.length === 0 ? peerNames : peerNames.filter((name) => peers.includes(name)),
    blas: values.blas,
    transforms,
    rounds: wholeNumber("rounds", values.rounds),
    milliseconds: wholeNumber("milliseconds", values.milliseconds),
    json: values.json,
    svg: values.svg,
    from: values.from,
    into: values.into,
    list: values.list,
    help: values.help,
  };
}

function wholeNumber(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value <= 0)
    throw new Error(`--${name} is ${text}; allowed: whole numbers above 0`);
  return value;
}
