/**
 * The certificates of regions: `<region>.crt` and `<region>.key` in one directory, which is a mounted Secret that the
 * operator writes. The directory is read at intervals, like the files of `server/certificate.ts`.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Certificate } from '../../server/certificate.ts'
import { type Certificates, checkCertificate } from './certificates.ts'

const defaultIntervalMs = 10_000
const certificateFile = /^([a-z0-9]([-a-z0-9]*[a-z0-9])?)\.crt$/

/**
 * Calls `use` with all certificates after the first read, and again after each change. An unchanged certificate stays
 * the same object.
 */
export function followCertificateFiles(options: {
  directory: string
  use: (certificates: Certificates) => void
  intervalMs?: number | undefined
  logger: Logger
}): { stop(): void } {
  const { directory, use, intervalMs = defaultIntervalMs, logger } = options
  let current: Certificates | undefined
  const reported = new Set<string>()
  let stopped = false
  let timer: NodeJS.Timeout

  /** Returns the region's pair. If the pair is invalid, returns the previous pair, if any. */
  const readRegion = async (region: string): Promise<Certificate | undefined> => {
    const before = current?.get(region)
    const [cert, key] = await Promise.all(
      ['crt', 'key'].map(end => readFile(join(directory, `${region}.${end}`), 'utf8')),
    )
    if (cert === undefined || key === undefined) return before
    if (before?.cert === cert && before.key === key) return before
    try {
      checkCertificate({ cert, key })
      reported.delete(region)
      return { cert, key }
    } catch {
      // The error is not logged, because its text may contain the key.
      if (!reported.has(region))
        logger.warn({ region }, 'certificate and key are not PEM, or do not match; keeping the previous pair, if any')
      reported.add(region)
      return before
    }
  }

  const readAll = async (): Promise<void> => {
    const found = new Map<string, Certificate>()
    for (const file of await filesIn(directory)) {
      const region = certificateFile.exec(file)?.[1]
      const certificate = region && (await readRegion(region).catch(() => current?.get(region)))
      if (region && certificate) found.set(region, certificate)
    }
    if (stopped || (current !== undefined && isSame(current, found))) return
    current = found
    use(found)
    logger.info({ regions: [...found.keys()] }, 'using the certificates of these regions')
  }
  const again = (): void => {
    timer = setTimeout(() => void readAll().finally(() => !stopped && again()), intervalMs)
  }
  void readAll().finally(() => !stopped && again())
  return {
    stop: () => {
      stopped = true
      clearTimeout(timer)
    },
  }
}

/**
 * Returns an empty list if the directory is missing. A Secret that does not exist yet is mounted as an empty directory.
 */
const filesIn = (directory: string): Promise<string[]> => readdir(directory).catch(() => [])

const isSame = (left: Certificates, right: Certificates): boolean =>
  left.size === right.size && [...right].every(([region, certificate]) => left.get(region) === certificate)
