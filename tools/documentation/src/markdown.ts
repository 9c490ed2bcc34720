/** A fenced block of a Markdown file. */
export interface CodeBlock {
  /** Of the fence, counted from 1. */
  readonly line: number;
  readonly code: string;
}

/** The blocks marked with this language, such as ```ts. */
export function codeBlocks(markdown: string, language: string): CodeBlock[] {
  const blocks: CodeBlock[] = [];
  let open: { readonly line: number; readonly language: string; readonly code: string[] } | undefined;
  for (const [i, text] of markdown.split("\n").entries()) {
    if (!text.startsWith("```")) open?.code.push(text);
    else if (open === undefined) open = { line: i + 1, language: text.slice(3).trim(), code: [] };
    else {
      if (open.language === language) blocks.push({ line: open.line, code: open.code.join("\n") });
      open = undefined;
    }
  }
  return blocks;
}

/** What a program is to print, line by line: the texts after `// prints: `. */
export function expectedOutput(code: string): string[] {
  return [...code.matchAll(/\/\/ prints: (.*)$/gm)].map((match) => match[1]!);
}

/** Targets of links to files, without their anchors; addresses on the web are left out. */
export function fileLinks(markdown: string): string[] {
  return [...markdown.matchAll(/\]\(([^)\s]+)\)/g)]
    .map((match) => match[1]!.split("#")[0]!)
    .filter((target) => target !== "" && !/^[a-z]+:/.test(target));
}
