import type { NumberedLine } from './run.ts'

/** Yields each line as text. Calls `unread` if the client does not read a line in time. */
export async function* whileRead(
  lines: AsyncIterable<NumberedLine>,
  ms: number,
  unread: () => void,
): AsyncGenerator<string, void, void> {
  let timer: NodeJS.Timeout | undefined
  try {
    for await (const line of lines) {
      timer = setTimeout(unread, ms)
      yield `${JSON.stringify(line)}\n`
      clearTimeout(timer)
    }
  } finally {
    clearTimeout(timer)
  }
}
