/** Knowledge-base files for tests, in the format of the program that builds knowledge bases. */
import { rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'

export type TestChunk = {
  readonly text: string
  readonly title?: string
  readonly section?: string
  readonly project?: string
  readonly version?: string
  readonly vector?: readonly number[] | Uint8Array | null
}

export const floats = (numbers: readonly number[]): Uint8Array => {
  const bytes = new DataView(new ArrayBuffer(4 * numbers.length))
  for (const [index, number] of numbers.entries()) bytes.setFloat32(4 * index, number, true)
  return new Uint8Array(bytes.buffer)
}

/** Replaces the knowledge-base file. */
export function writeKnowledge(path: string, chunks: Iterable<TestChunk>, provider = 'openai'): void {
  rmSync(path, { force: true })
  const database = new DatabaseSync(path)
  database.exec(`
    CREATE TABLE chunks (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL, title TEXT, section TEXT, project_name TEXT NOT NULL,
      project_version TEXT NOT NULL, file_path TEXT, source_file_checksum TEXT, ${provider}_embedding BLOB, created_at DATETIME DEFAULT CURRENT_TIMESTAMP);
    CREATE TABLE source_files (checksum TEXT PRIMARY KEY, file_path TEXT); BEGIN`)
  const insert = database.prepare(
    `INSERT INTO chunks (text, title, section, project_name, project_version, file_path, ${provider}_embedding) VALUES (?, ?, ?, ?, ?, ?, ?)`,
  )
  for (const {
    text,
    title = 'Manual',
    section = null,
    project = 'Postgres',
    version = '17',
    vector = [1, 0, 0],
  } of chunks) {
    const blob = vector === null || vector instanceof Uint8Array ? vector : floats(vector)
    insert.run(text, title, section, project, version, 'manual.md', blob)
  }
  database.exec('COMMIT')
  database.close()
}
