/**
 * Escapes text of servers, files and arguments for a terminal. Control characters could move the cursor or change the
 * shown text, and some characters change the direction of text. All of them are printed as escapes.
 */

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it escapes
const unsafe = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

const named: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** Returns the text on one line, with `\n`, `\x1b` or `\u202e` in place of each unsafe character. */
export const escapeControls = (text: string): string =>
  text.replace(unsafe, character => {
    const code = character.charCodeAt(0)
    const short = code < 0x100
    return named[character] ?? `\\${short ? 'x' : 'u'}${code.toString(16).padStart(short ? 2 : 4, '0')}`
  })

/** Does the same for text of several lines, and keeps the line breaks. Text that is already escaped stays unchanged. */
export const escapeLines = (text: string): string => text.split('\n').map(escapeControls).join('\n')

/** Whether a terminal or a configuration file always reads the text as the text itself. */
export const isPlainText = (text: string): boolean => escapeControls(text) === text

/** JSON for people and programs. The escaped text is still valid JSON with the same value. */
export const printedJson = (value: unknown, indent?: number): string =>
  (JSON.stringify(value, undefined, indent) ?? 'null').replace(
    // Line feeds between members stay. Those inside strings are already escaped.
    /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
