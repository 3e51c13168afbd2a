/** Reads a file into passages, depending on its format. */
import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { LoadError } from '../errors.ts'
import { decodeStream, decodeText, htmlEncoding } from './decode.ts'
import type { SourceFile } from './files.ts'
import { htmlBlocks } from './html.ts'
import { markdownBlocks } from './markdown.ts'
import { csvPassages, jsonPassages } from './rows.ts'
import { passages } from './split.ts'
import { textBlocks } from './text.ts'
import type { Passage } from './types.ts'

const readers = { markdown: markdownBlocks, html: htmlBlocks, text: textBlocks }

/** @throws LoadError that names the file */
export async function* passagesOf(
  { path, source, format }: SourceFile,
  maximumTokens: number,
): AsyncGenerator<Passage> {
  try {
    if (format === 'csv' || format === 'json lines') {
      const texts = decodeStream(createReadStream(path), source)
      const options = { name: source, maximumTokens }
      yield* format === 'csv' ? csvPassages(texts, options) : jsonPassages(texts, options)
      return
    }
    const bytes = await readFile(path)
    const text = decodeText(bytes, source, format === 'html' ? htmlEncoding(bytes) : undefined)
    yield* passages(source, readers[format](text), maximumTokens)
  } catch (error) {
    if (error instanceof LoadError) throw error
    throw new LoadError(`${source}: ${error instanceof Error ? error.message : String(error)}`, error)
  }
}
