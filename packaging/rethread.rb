# Homebrew formula. Filled in by ./release; see docs/releasing.md for where it goes.
class Rethread < Formula
  desc "Session continuity for AI agents"
  homepage "@HOMEPAGE@"
  version "@VERSION@"
  license "Apache-2.0"

  on_linux do
    on_intel do
      url "@RELEASES_URL@/v@VERSION@/rethread-@VERSION@-x86_64-linux.tar.gz"
      sha256 "@SUM-x86_64-linux@"
    end
    on_arm do
      url "@RELEASES_URL@/v@VERSION@/rethread-@VERSION@-aarch64-linux.tar.gz"
      sha256 "@SUM-aarch64-linux@"
    end
  end

  # There is no version for macOS.
  depends_on :linux

  def install
    bin.install "bin/rethread"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/rethread"
    fish_completion.install "share/fish/vendor_completions.d/rethread.fish"
    zsh_completion.install "share/zsh/site-functions/_rethread"
    doc.install Dir["share/doc/rethread/*"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/rethread --version")
    system bin/"rethread", "tour"
  end
end
