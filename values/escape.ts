/**
 * Text of servers, files and arguments on a terminal: control characters, which could move the cursor or change what is shown, and
 * characters that change the direction of text, are printed as escapes.
 */

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it escapes
const unsafe = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

const named: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** The text on one line, with `\n`, `\x1b` or `\u202e` in place of each unsafe character. */
export const escapeControls = (text: string): string =>
  text.replace(unsafe, character => {
    const code = character.charCodeAt(0)
    const short = code < 0x100
    return named[character] ?? `\\${short ? 'x' : 'u'}${code.toString(16).padStart(short ? 2 : 4, '0')}`
  })

/** The same for text of several lines, which stay apart. What is escaped already stays as it is. */
export const escapeLines = (text: string): string => text.split('\n').map(escapeControls).join('\n')

/** Whether a terminal or a configuration file could read the text as anything else than itself. */
export const isPlainText = (text: string): boolean => escapeControls(text) === text

/** JSON for people and programs: what it escapes is still valid JSON with the same value. */
export const printedJson = (value: unknown, indent?: number): string =>
  (JSON.stringify(value, undefined, indent) ?? 'null').replace(
    // Line feeds between members stay; those inside strings are escaped already.
    /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
