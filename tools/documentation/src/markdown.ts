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

/** Returns the lines that a program should print: the texts after `// prints: `. */
export function expectedOutput(code: string): string[] {
  return [...code.matchAll(/\/\/ prints: (.*)$/gm)].map((match) => match[1]!);
}

/** A link to a file of the repository, or to a part of one. */
export interface FileLink {
  /** Relative to the file that has the link; empty: that file itself. */
  readonly path: string;
  /** That of the heading; undefined if the link is to the whole file. */
  readonly anchor: string | undefined;
}

/** Links to files; addresses on the web are left out. */
export function fileLinks(markdown: string): FileLink[] {
  return [...markdown.matchAll(/\]\(([^)\s]+)\)/g)]
    .map((match) => match[1]!)
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => {
      const [path, anchor] = target.split("#");
      return { path: path!, anchor };
    });
}

/**
 * Returns the anchors that links may name after a "#", as GitHub makes them from headings; equal ones are numbered.
 */
export function anchors(markdown: string): Set<string> {
  const found = new Set<string>();
  const text = markdown.replaceAll(/^```[\s\S]*?^```/gm, "");
  for (const [, heading] of text.matchAll(/^#+ (.*)$/gm)) {
    const words = heading!.toLowerCase().replaceAll(/[^\p{L}\p{N}_ -]/gu, "");
    const name = words.replaceAll(" ", "-");
    let anchor = name;
    for (let i = 1; found.has(anchor); i++) anchor = `${name}-${i}`;
    found.add(anchor);
  }
  return found;
}
