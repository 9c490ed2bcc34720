import { BackendError } from "@backplane/core";
import { nodeProcess } from "../node-process.js";
import { type BlasLibrary, type BoundBlas, bindBlas } from "./blas.js";
import { checkSgemm } from "./check-blas.js";
import { firstLine, type Koffi, loadKoffi, type NativeLibrary, optionalFunction } from "./koffi.js";

/** `CpuOptions.blas`. */
export type BlasOption = "auto" | false | (string & {});

export interface FoundBlas {
  readonly library: BlasLibrary;
  /** A description for people. */
  readonly description: string;
}

/** The outcome of the option: not requested, not found and why, or a library. */
export interface BlasOutcome {
  readonly found?: FoundBlas;
  readonly unavailable?: string;
}

/**
 * The libraries that "auto" tries, in this order, by platform. `libblas` is not among them: it is often the
 * plain reference implementation, which is slower than the kernels of this package.
 */
const wellKnown: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  linux: ["libopenblas.so.0", "libopenblas.so", "libmkl_rt.so.2", "libmkl_rt.so.1"],
  darwin: ["/System/Library/Frameworks/Accelerate.framework/Accelerate"],
  win32: ["libopenblas.dll", "openblas.dll", "mkl_rt.2.dll"],
};

const opened = new Map<string, FoundBlas>();

/**
 * Opens the library that the option names, once in the life of the thread. Throws `UNSUPPORTED`, with the
 * reason, if a path was given and cannot be used.
 */
export function findBlas(option: BlasOption): BlasOutcome {
  if (option === false) return {};
  const known = opened.get(option);
  if (known !== undefined) return { found: known };
  const paths = option === "auto" ? (wellKnown[nodeProcess?.platform ?? "linux"] ?? []) : [option];
  const outcome = tryAll(paths);
  if (outcome.found !== undefined) opened.set(option, outcome.found);
  if (option !== "auto" && outcome.found === undefined)
    throw new BackendError("UNSUPPORTED", `cpu: blas is ${option}: ${outcome.unavailable}`, {
      operation: "init",
      argument: "blas",
    });
  return outcome;
}

function tryAll(paths: readonly string[]): BlasOutcome {
  let koffi: Koffi;
  try {
    koffi = loadKoffi();
  } catch (error) {
    return { unavailable: firstLine(error) };
  }
  const reasons: string[] = [];
  for (const path of paths) {
    try {
      return { found: open(koffi, path) };
    } catch (error) {
      reasons.push(paths.length === 1 ? firstLine(error) : `${path}: ${firstLine(error)}`);
    }
  }
  return { unavailable: reasons.join("; ") || `no library is known for ${nodeProcess?.platform}` };
}

function open(koffi: Koffi, path: string): FoundBlas {
  const found = { path, ...interfaceOf(koffi.load(path)) };
  const bound = bindBlas(found);
  const wrong = checkSgemm(bound);
  if (wrong !== undefined) throw new Error(`its ${found.symbol} ${wrong}`);
  return { library: found, description: describe(path, bound) };
}

/** Builds with 64-bit integers have the same functions with other parameters, mostly under other names. */
function interfaceOf(library: NativeLibrary): Omit<BlasLibrary, "path"> {
  const has = (name: string): boolean => optionalFunction(library, name, "void", []) !== undefined;
  if (has("cblas_sgemm")) {
    const wide = openBlasConfiguration(library)?.includes("USE64BITINT") === true;
    const mkl = has("MKL_Set_Num_Threads") && nodeProcess?.env.MKL_INTERFACE_LAYER?.startsWith("ILP64");
    return { symbol: "cblas_sgemm", integer: wide || mkl ? "int64_t" : "int" };
  }
  for (const symbol of ["cblas_sgemm64_", "cblas_sgemm_64"])
    if (has(symbol)) return { symbol, integer: "int64_t" };
  throw new Error("it has no function cblas_sgemm");
}

/** Returns OpenBLAS's own description, such as "OpenBLAS 0.3.21 DYNAMIC_ARCH SkylakeX MAX_THREADS=64". */
function openBlasConfiguration(library: NativeLibrary): string | undefined {
  for (const suffix of ["", "64_"]) {
    const configuration = optionalFunction(library, `openblas_get_config${suffix}`, "str", []);
    if (configuration !== undefined) return configuration() as string;
  }
  return undefined;
}

function describe(path: string, { library }: BoundBlas): string {
  const openBlas = openBlasConfiguration(library);
  if (openBlas === undefined) return path;
  const [, version] = openBlas.split(" ");
  const core = (
    optionalFunction(library, "openblas_get_corename", "str", []) ??
    optionalFunction(library, "openblas_get_corename64_", "str", [])
  )?.() as string | undefined;
  return `OpenBLAS ${version}${core === undefined ? "" : ` for ${core}`}, ${path}`;
}
