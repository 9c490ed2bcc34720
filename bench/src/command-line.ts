/**
 * Returns what `read` makes of the command line. If it throws, or if help was asked for, this says so with the usage and
 * ends the program, with 2 or 0.
 */
export function commandLine<Options extends { readonly help: boolean }>(
  usage: string,
  read: () => Options,
): Options {
  let options: Options;
  try {
    options = read();
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${usage}`);
    process.exit(2);
  }
  if (!options.help) return options;
  process.stdout.write(usage);
  process.exit(0);
}

/** Throws with what is allowed unless the text of an option is a whole number from `least` on. */
export function wholeNumber(option: string, text: string, least: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < least)
    throw new Error(`--${option} is ${text}; allowed: whole numbers from ${least} on`);
  return value;
}
