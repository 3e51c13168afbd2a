/**
 * Reloads a certificate when its files change. The files are read at intervals and compared. A mounted Secret changes
 * by a symbolic link far above the file, and watching the file does not detect this. An incomplete or invalid pair is
 * ignored, and logged once.
 */
import { readFile } from 'node:fs/promises'
import type { Logger } from 'pino'

/** In PEM: a certificate with its intermediate certificates, and its private key. */
export type Certificate = { cert: string; key: string }

/** `chain`: intermediate certificates, if they are not in the first file. */
export type CertificateFiles = { cert: string; key: string; chain?: string | undefined }

/**
 * Reads one file after another, so that if several files are unreadable, the error always names the same file. @throws
 * Error
 */
export async function readCertificate({ cert, key, chain }: CertificateFiles): Promise<Certificate> {
  const own = await readFile(cert, 'utf8')
  const privateKey = await readFile(key, 'utf8')
  const more = chain === undefined ? undefined : await readFile(chain, 'utf8')
  return { cert: more === undefined ? own : `${own}\n${more}`, key: privateKey }
}

const defaultIntervalMs = 10_000

/**
 * Calls `use` with each new pair until it is stopped. `use` must throw if the pair is invalid. `current` is the pair in
 * use.
 */
export function followCertificate(options: {
  files: CertificateFiles
  current: Certificate
  use: (certificate: Certificate) => void
  intervalMs?: number | undefined
  logger: Logger
}): { stop(): void } {
  const { files, use, intervalMs = defaultIntervalMs, logger } = options
  /** The last pair read, in use or not. */
  let seen = options.current
  let stopped = false
  let timer: NodeJS.Timeout

  const check = async (): Promise<void> => {
    try {
      const found = await readCertificate(files)
      if (stopped || (found.cert === seen.cert && found.key === seen.key)) return
      seen = found
      use(found)
      logger.info({ file: files.cert }, 'the certificate has changed; the new one is in use')
    } catch (error) {
      // The text of an error about a key may quote the key.
      const code = error instanceof Error && 'code' in error ? error.code : undefined
      logger.warn(
        { file: files.cert, code },
        'the certificate has changed and cannot be used; keeping the previous one',
      )
    }
  }
  const again = (): void => {
    timer = setTimeout(() => void check().finally(() => !stopped && again()), intervalMs)
  }
  again()
  return {
    stop: () => {
      stopped = true
      clearTimeout(timer)
    },
  }
}
