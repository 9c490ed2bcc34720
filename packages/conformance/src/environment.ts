/** The program that ran the suite. */
export interface Environment {
  /** Such as `Node.js 24.4.1`, or a browser's user agent. */
  readonly runtime: string;
  /** Such as `linux x64`. */
  readonly platform: string;
}

/** The parts of the global scope that distinguish runtimes. */
interface Globals {
  readonly process?: {
    readonly versions?: Readonly<Record<string, string | undefined>>;
    readonly platform?: string;
    readonly arch?: string;
  };
  readonly navigator?: { readonly userAgent?: string; readonly platform?: string };
}

/** Returns the program that runs the suite: Node.js, another runtime that imitates it, or a browser. */
export function environment(globals: Globals = globalThis as Globals): Environment {
  const { process, navigator } = globals;
  const versions = process?.versions;
  if (versions?.node === undefined)
    return { runtime: navigator?.userAgent ?? "unknown", platform: navigator?.platform || "unknown" };
  // Bun and Deno claim to be Node.js as well.
  const names = { bun: "Bun", deno: "Deno", node: "Node.js" };
  const [key, name] = Object.entries(names).find(([key]) => versions[key] !== undefined)!;
  return { runtime: `${name} ${versions[key]}`, platform: `${process?.platform} ${process?.arch}` };
}
