/** Thrown if the software adapter cannot run; `reason` says what is missing. */
export class SoftwareAdapterUnavailable extends Error {
  readonly reason: string;

  constructor(reason: string) {
    super(`No software adapter here: ${reason}`);
    this.name = "SoftwareAdapterUnavailable";
    this.reason = reason;
  }
}

/** Returns why the software adapter cannot run on this machine, or undefined if it can. */
export function unavailableReason(): string | undefined {
  if (process.platform === "linux" && process.arch === "x64") return undefined;
  return `its binaries are built for Linux x64, and this is ${process.platform} ${process.arch}`;
}
