class Cutpoint < Formula
  desc "@SUMMARY@"
  homepage "@HOMEPAGE@"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    url "@SOURCE_URL@"
    sha256 "@SOURCE_SUM@"

    depends_on "rust" => :build
  end

  on_linux do
    on_intel do
      url "@X86_64_URL@"
      sha256 "@X86_64_SUM@"
    end

    on_arm do
      url "@AARCH64_URL@"
      sha256 "@AARCH64_SUM@"
    end
  end

  def install
    if OS.mac?
      ENV["CUTPOINT_COMMIT"] = "@COMMIT@"
      system "cargo", "install", *std_cargo_args(path: "crates/cli")
      system bin/"cutpoint", "man", buildpath/"man"
      generate_completions_from_executable(bin/"cutpoint", "completions")
    else
      bin.install "cutpoint"
      bash_completion.install "completions/cutpoint.bash" => "cutpoint"
      fish_completion.install "completions/cutpoint.fish"
      zsh_completion.install "completions/cutpoint.zsh" => "_cutpoint"
    end
    man1.install Dir["man/*.1"]
  end

  def caveats
    "No test of Cutpoint runs on macOS." if OS.mac?
  end

  test do
    ENV["CUTPOINT_REPO"] = testpath/"repo"
    ENV["CUTPOINT_PASSPHRASE"] = "a passphrase of the test"
    (testpath/"notes/todo.txt").write "Buy milk."
    system bin/"cutpoint", "init"
    system bin/"cutpoint", "backup", testpath/"notes"
    output = shell_output("#{bin}/cutpoint cat latest:#{testpath}/notes/todo.txt")
    assert_equal "Buy milk.", output
  end
end
