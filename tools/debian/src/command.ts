/**
 * Runs a command that fetches something and has no arguments: prints what `fetch` found, a line each. `usage` is for
 * `--help`, and for any other argument, which ends with 1. Of an error that `isExpected` knows, only the message is
 * printed.
 */
export async function fetchCommand(
  usage: string,
  fetch: () => AsyncIterable<string>,
  isExpected: (error: unknown) => error is Error,
  words: readonly string[] = process.argv.slice(2),
): Promise<void> {
  if (words.length > 0) {
    const asked = words.every((word) => word === "--help");
    console[asked ? "log" : "error"](asked ? usage : `${words.join(" ")} is no option\n${usage}`);
    if (!asked) process.exitCode = 1;
    return;
  }
  try {
    for await (const found of fetch()) console.log(`Fetched ${found}`);
  } catch (error) {
    console.error(isExpected(error) ? error.message : error);
    process.exitCode = 1;
  }
}
