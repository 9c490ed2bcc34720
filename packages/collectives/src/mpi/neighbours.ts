import { readFileSync } from "node:fs";
import { hostname } from "node:os";

/** Where a rank runs. */
export interface Process {
  /** The machine, or container. */
  readonly host: string;
  readonly pid: number;
  /** Tells processes apart that have the same number one after the other. Empty if the system does not say. */
  readonly started: string;
}

export function thisProcess(): Process {
  return {
    host: `${hostname()} ${read("/proc/sys/kernel/random/boot_id").trim()}`,
    pid: process.pid,
    started: startOf(process.pid) ?? "",
  };
}

/** Whether a process of this machine still runs. */
export function isAlive({ pid, started }: Process): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // Somebody else's is alive too.
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return false;
  }
  const now = startOf(pid);
  return started === "" || now === undefined || now === started;
}

/** When a process began, in ticks of the system; undefined if the system does not say. Empty if it has ended. */
function startOf(pid: number): string | undefined {
  const text = read(`/proc/${pid}/stat`);
  if (text === "") return undefined;
  // Its name, which comes second, is in parentheses and may hold anything.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const [state, start] = [fields[0], fields[19]];
  // A process that has ended stays as a zombie until its parent asks for it.
  return state === "Z" || state === "X" ? "" : start;
}

function read(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}
