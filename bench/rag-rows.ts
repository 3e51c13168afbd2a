/**
 * Generates the documents for bench/rag.ts, the same in each run. Like embeddings of texts, the vectors form clusters
 * of clusters, which differ in about 40 directions. In uniform noise, all rows would be equally distant, and an index
 * would find nothing. Words follow Zipf's law; words of Espalier's documentation are the most frequent. Some words
 * belong to the document's topic.
 */
import { closeSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const dimensions = 384
export type VectorType = 'vector' | 'halfvec'

const areas = 50
const topicsPerArea = 20
const topics = areas * topicsPerArea
/** The number of directions in which documents differ. */
const directions = 40
const spread = { area: 1, topic: 0.6, document: 0.8, noise: 0.3 }
const vocabulary = 30_000
const topicWords = 100
const wordsPerDocument = 40
const rowsPerWrite = 500

/** Returns random numbers from 0 to 1 (mulberry32). */
type Random = () => number

function randomFrom(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** Returns a nearly normally distributed number with mean 0 and variance 1. */
const normal = (random: Random): number => (random() + random() + random() + random() - 2) * Math.sqrt(3)
const normals = (random: Random, count: number, factor: number): Float32Array =>
  Float32Array.from({ length: count }, () => normal(random) * factor)

const syllables = [
  'ba',
  'ce',
  'di',
  'fo',
  'gu',
  'lan',
  'mer',
  'nis',
  'por',
  'sut',
  'tra',
  'vel',
  'wix',
  'zon',
  'kel',
  'hum',
]
const madeUp = (number: number): string =>
  [number & 15, (number >> 4) & 15, (number >> 8) & 15, number >> 12].map(part => syllables[part & 15]).join('')

/**
 * English words, the most frequent first. The time to count a text's tokens depends on whether its words belong to a
 * language.
 */
const english: readonly string[] = (() => {
  const counts = new Map<string, number>()
  const folder = fileURLToPath(new URL('../docs/', import.meta.url))
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.md')) continue
    for (const [found] of readFileSync(join(folder, file), 'utf8').matchAll(/(?<![\w-])[a-z]{2,}(?![\w-])/g)) {
      counts.set(found, (counts.get(found) ?? 0) + 1)
    }
  }
  return [...counts]
    .toSorted(([one, first], [other, second]) => second - first || (one < other ? -1 : 1))
    .map(([found]) => found)
})()
const word = (rank: number): string => english[rank] ?? madeUp(rank)

/** The ranks of words. Each rank occurs as often as its word occurs in texts. */
const ranks = (() => {
  const table = new Uint16Array(65_536)
  const random = randomFrom(1)
  for (let index = 0; index < table.length; index++) table[index] = Math.floor(vocabulary ** random()) - 1
  return table
})()

const model = (() => {
  const random = randomFrom(2)
  const projection = normals(random, dimensions * directions, 1 / Math.sqrt(directions))
  const centres: Float32Array[] = []
  for (let area = 0; area < areas; area++) {
    const middle = normals(random, directions, spread.area)
    for (let topic = 0; topic < topicsPerArea; topic++) {
      centres.push(normals(random, directions, spread.topic).map((value, index) => value + (middle[index] ?? 0)))
    }
  }
  return { projection, centres }
})()

function vectorOf(topic: number, random: Random): Float32Array {
  const centre = model.centres[topic] ?? new Float32Array(directions)
  const latent = centre.map(value => value + normal(random) * spread.document)
  const vector = new Float32Array(dimensions)
  const { projection } = model
  let squares = 0
  for (let row = 0, at = 0; row < dimensions; row++) {
    let sum = (random() - 0.5) * spread.noise
    for (let column = 0; column < directions; column++, at++) sum += (projection[at] ?? 0) * (latent[column] ?? 0)
    vector[row] = sum
    squares += sum * sum
  }
  const length = Math.sqrt(squares)
  return vector.map(value => value / length)
}

const commonWord = (random: Random): string => word(ranks[Math.floor(random() * ranks.length)] ?? 0)
const topicWord = (topic: number, random: Random): string =>
  word(
    ((topic * 2_654_435_761) % (english.length - 2 * topicWords)) + Math.floor((1 + random() * random()) * topicWords),
  )

const textOf = (topic: number, words: number, random: Random): string =>
  Array.from({ length: words }, () => (random() < 0.3 ? topicWord(topic, random) : commonWord(random))).join(' ')

/** Returns a random topic. Some topics have many more documents than others. */
const someTopic = (random: Random): number => Math.floor(topics * random() ** 1.5)

/**
 * The columns of the tables, in the order of the files. The files omit the last column, which `rag load` also creates.
 * `bucket` is random, from 0 to 199. `topic` is the topic of the vector and the words.
 */
export const columns = (type: VectorType): string =>
  `id bigint PRIMARY KEY, content text NOT NULL, bucket int NOT NULL, topic int NOT NULL, embedding ${type}(${dimensions}),
   lexemes tsvector GENERATED ALWAYS AS (to_tsvector('english', content)) STORED`

/** Writes a file for `COPY ... FROM ... WITH (FORMAT binary)`. */
export function writeRows(path: string, type: VectorType, rows: number): void {
  const file = openSync(path, 'w', 0o644)
  const buffer = Buffer.alloc(rowsPerWrite * 4_096)
  const random = randomFrom(3)
  let length = buffer.write('PGCOPY\n\xff\r\n\0', 'latin1') + 8
  for (let id = 1; id <= rows; id++) {
    length = writeRow(buffer, length, type, id, random)
    if (id % rowsPerWrite === 0) {
      writeSync(file, buffer, 0, length)
      length = 0
    }
  }
  length = buffer.writeInt16BE(-1, length)
  writeSync(file, buffer, 0, length)
  closeSync(file)
}

function writeRow(buffer: Buffer, start: number, type: VectorType, id: number, random: Random): number {
  const topic = someTopic(random)
  const vector = vectorOf(topic, random)
  const text = textOf(topic, wordsPerDocument, random)
  let at = buffer.writeInt16BE(5, start)
  at = buffer.writeBigInt64BE(BigInt(id), buffer.writeInt32BE(8, at))
  const bytes = buffer.write(text, at + 4)
  at = buffer.writeInt32BE(bytes, at) + bytes
  at = buffer.writeInt32BE(Math.floor(random() * 200), buffer.writeInt32BE(4, at))
  at = buffer.writeInt32BE(topic, buffer.writeInt32BE(4, at))
  const width = type === 'vector' ? 4 : 2
  at = buffer.writeInt32BE(4 + dimensions * width, at)
  at = buffer.writeInt16BE(0, buffer.writeInt16BE(dimensions, at))
  const view = new DataView(buffer.buffer, buffer.byteOffset)
  for (const value of vector) {
    if (type === 'vector') view.setFloat32(at, value)
    else view.setFloat16(at, value)
    at += width
  }
  return at
}

type Question = { readonly text: string; readonly vector: readonly number[]; readonly topic: number }

/** Returns questions about the documents' topics. No question equals a document. */
export function questions(count: number): readonly Question[] {
  const random = randomFrom(4)
  return Array.from({ length: count }, () => {
    const topic = someTopic(random)
    return { topic, vector: [...vectorOf(topic, random)], text: textOf(topic, 8, random) }
  })
}
