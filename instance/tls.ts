/**
 * Checks the mounted certificate by Postgres's own rules before Postgres starts, so that a wrong mode gives one clear
 * line instead of a server that does not start. The certificate is used in the mounted directory, so a renewed
 * certificate only needs a reload.
 */
import { accessSync, constants, statSync } from 'node:fs'
import { join } from 'node:path'
import { Refusal } from './refusal.ts'

/** The file names in the mounted Secret. */
const tlsFiles = { certificate: 'tls.crt', key: 'tls.key', authority: 'ca.crt' } as const

/**
 * Postgres's rule for its private key (manual, "Secure TCP/IP Connections with SSL"). If the user of Postgres owns the
 * key, its mode must be 0600 or less. If root owns it (as for a Secret that Kubernetes mounts with an fsGroup), its
 * mode must be 0640 or less.
 */
export function keyPermissionProblem(file: { uid: number; mode: number }, user: number): string | undefined {
  const mode = (file.mode & 0o777).toString(8).padStart(4, '0')
  if (file.uid === user) {
    return file.mode & 0o077 ? `has mode ${mode}; owned by Postgres's user it must be 0600 or less` : undefined
  }
  if (file.uid !== 0) return `belongs to user ${file.uid}; it must belong to Postgres's user or to root`
  return file.mode & 0o037 ? `has mode ${mode}; owned by root it must be 0640 or less` : undefined
}

/** The settings that name the certificate's files. @throws Refusal `tls` if Postgres would refuse a file */
export function tlsSettings(directory: string, user: number): Record<string, string> {
  for (const name of Object.values(tlsFiles)) {
    const path = join(directory, name)
    try {
      accessSync(path, constants.R_OK)
    } catch (cause) {
      throw new Refusal('tls', `cannot read ${path}: ${cause instanceof Error ? cause.message : cause}`, { cause })
    }
  }
  const key = join(directory, tlsFiles.key)
  const problem = keyPermissionProblem(statSync(key), user)
  if (problem !== undefined) throw new Refusal('tls', `${key} ${problem}`)
  return {
    ssl_cert_file: join(directory, tlsFiles.certificate),
    ssl_key_file: key,
    ssl_ca_file: join(directory, tlsFiles.authority),
  }
}
