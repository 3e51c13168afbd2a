/** The supported revisions of the protocol. */
export const legacyVersions = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'] as const
export type LegacyVersion = (typeof legacyVersions)[number]
export const isLegacyVersion = (version: unknown): version is LegacyVersion =>
  (legacyVersions as readonly unknown[]).includes(version)
export const modernVersion = '2026-07-28'
