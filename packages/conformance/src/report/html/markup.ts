/** Text that is HTML already. Everything else is escaped when it is put into a page. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  toString(): string {
    return this.text;
  }
}

/** The values allowed between the braces of `html`. Numbers and strings are escaped, lists are joined. */
export type Content = Markup | string | number | undefined | readonly Content[];

/**
 * Returns a piece of HTML: html`<td title="${tip}">${value}</td>`. Values are escaped for elements and for
 * quoted attributes alike; `undefined` leaves nothing behind.
 */
export function html(strings: TemplateStringsArray, ...contents: readonly Content[]): Markup {
  let text = strings[0]!;
  for (const [i, content] of contents.entries()) text += asText(content) + strings[i + 1]!;
  return new Markup(text);
}

function asText(content: Content): string {
  if (content === undefined) return "";
  if (content instanceof Markup) return content.text;
  if (typeof content === "object") return content.map(asText).join("");
  return escapeHtml(String(content));
}

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Characters that are legal in no HTML document: control characters and halves of surrogate pairs. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const illegal = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]|\p{Surrogate}/gu;

/** Escapes text for an element or a quoted attribute. Characters that HTML cannot hold become U+FFFD. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character]!).replace(illegal, "\ufffd");
}
